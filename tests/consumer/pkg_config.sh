#!/bin/sh
# A user with pkg-config: pkg_config.sh COMPILER PREFIX VERSION
set -eu
compiler=$1 prefix=$2 version=$3
here=$(dirname "$0")
export PKG_CONFIG_PATH="$prefix/share/pkgconfig"

told=$(pkg-config --modversion ratelimit)
if [ "$told" != "$version" ]; then
  echo "pkg-config says version $told, version.hpp $version" >&2
  exit 1
fi
# Unquoted: one word per flag.
"$compiler" -std=c++20 "$here/main.cpp" -o "$prefix/pkg_config_app" $(pkg-config --cflags --libs ratelimit)
"$prefix/pkg_config_app"

#!/bin/sh
# A user who copied include/ and compiles with the usual warnings as errors: plain_copy.sh COMPILER INCLUDE WORK
set -eu
compiler=$1 include=$2 work=$3
here=$(dirname "$0")

rm -rf "$work"
mkdir -p "$work"
cp -r "$include" "$work/include"
"$compiler" -std=c++20 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -I "$work/include" \
  "$here/main.cpp" -o "$work/app" -lhiredis -pthread
"$work/app"

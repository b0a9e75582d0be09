#!/usr/bin/env bash
# Every C++ snippet of README.md compiles: snippets.sh COMPILER INCLUDE README PREAMBLE FIRST. A snippet with a main is a
# program, and must be FIRST, word for word; the others are the body of a function, after PREAMBLE.
set -euo pipefail
compiler=$1 include=$2 readme=$3 preamble=$4 first=$5

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
awk -v dir="$dir" '/^```/ { inside = !inside && $0 == "```cpp"; number += inside; next }
                   inside { print > (dir "/" number ".snippet") }' "$readme"

count=0
for snippet in "$dir"/*.snippet; do
  source=${snippet%.snippet}.cpp
  if grep -q '^int main' "$snippet"; then
    cp "$snippet" "$source"
    diff -u "$first" "$source"
  else
    { cat "$preamble"; echo "void snippet() {"; cat "$snippet"; echo "}"; } > "$source"
  fi
  "$compiler" -std=c++20 -Wall -Wextra -I "$include" -fsyntax-only "$source"
  count=$((count + 1))
done
[ "$count" -ge 5 ] || { echo "only $count snippets found in $readme" >&2; exit 1; }
echo "$count snippets compile"

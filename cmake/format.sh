#!/bin/sh
# Formats all C++ and CUDA sources. With --check it only names those that are not formatted. The style is pinned to
# clang-format 14: other versions format differently.
set -eu
cd "$(git rev-parse --show-toplevel)"
tool=""
for name in clang-format-14 clang-format; do
  if command -v $name >/dev/null 2>&1 && $name --version | grep -q ' 14\.'; then tool=$name; break; fi
done
if [ -z "$tool" ]; then
  echo "clang-format 14 is not installed (Debian 12: apt-get install clang-format)" >&2
  exit 1
fi
files=$(git ls-files --cached --others --exclude-standard '*.hpp' '*.cpp' '*.h' '*.c' '*.cu' '*.cuh')
if [ "${1:-}" = --check ]; then
  $tool --dry-run -Werror $files && echo "formatting: all sources are formatted"
else
  $tool -i $files
fi

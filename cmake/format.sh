#!/bin/sh
# Formats all C++ and CUDA sources. With --check it only names those that are not formatted, lines of sources that are
# longer than 120 columns (clang-format does not break all of them), and comments that were broken by hand. The style is
# pinned to clang-format 14: other versions format differently.
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
  status=0
  $tool --dry-run -Werror $files || status=1
  # Columns, not bytes. The pages of docs/results are written by the command, with all their data in one line.
  long=$(LC_ALL=C.UTF-8 git grep --untracked -nIE '^.{121,}$' -- '*.hpp' '*.cpp' '*.h' '*.c' '*.cu' '*.cuh' '*.py' \
    '*.sh' '*.f90' '*CMakeLists.txt' '*.cmake' '*.html' ':!docs/results') || [ $? -eq 1 ]
  if [ -n "$long" ]; then
    echo "$long" | cut -d: -f1,2 | sed 's/$/: the line is longer than 120 columns/' >&2
    status=1
  fi
  # A comment that was broken after a word or two in the middle of a sentence, below a full line.
  torn=$(awk 'FNR == 1 { above = 0 }
    { comment = match($0, /^ *(\/\/|#) +/); text = substr($0, RLENGTH + 1) }
    found && comment && indent <= RLENGTH && text ~ /^[A-Za-z]/ { print place }
    { found = above && comment && length(text) < 20 && text ~ /^[a-z][^:.]*$/ && text !~ /  /; place = FILENAME ":" FNR
      indent = RLENGTH
      above = comment && length($0) > 100 && $0 !~ /^#(include|define|if|error)/ }' $files)
  if [ -n "$torn" ]; then
    echo "$torn" | sed 's/$/: the comment is broken in the middle of a sentence; wrap its lines again/' >&2
    status=1
  fi
  [ $status -ne 0 ] || echo "formatting: all sources are formatted, and no line is longer than 120 columns"
  exit $status
else
  $tool -i $files
fi

#!/bin/sh
# environment.sh FOLDER PYTHON REQUIREMENTS...: a virtual environment in FOLDER with what these files name, from PyPI.
# It is made again if they name something else.
set -eu
[ $# -ge 3 ] || { echo "usage: $0 FOLDER PYTHON REQUIREMENTS..." >&2; exit 2; }
folder=$1
python=$2
shift 2
wanted=$(cat "$@" | grep -v '^#' | sort -u)
[ "$(cat "$folder/installed" 2>/dev/null || true)" != "$wanted" ] || exit 0
echo "Installing from PyPI: $(echo "$wanted" | tr '\n' ' ')"
rm -rf "$folder"
"$python" -m venv "$folder"
for file; do
  set -- "$@" -r "$file"
  shift
done
"$folder/bin/pip" install --quiet --disable-pip-version-check "$@"
echo "$wanted" >"$folder/installed"

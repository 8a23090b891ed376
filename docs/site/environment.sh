#!/bin/sh
# environment.sh FOLDER PYTHON: a virtual environment in FOLDER with what docs/site/requirements.txt names, from PyPI.
set -eu
[ $# = 2 ] || { echo "usage: $0 FOLDER PYTHON" >&2; exit 2; }
wanted=$(dirname "$0")/requirements.txt
cmp -s "$wanted" "$1/installed" && exit 0
echo "Installing from PyPI: $(grep -v '^#' "$wanted" | tr '\n' ' ')"
rm -rf "$1"
"$2" -m venv "$1"
"$1/bin/pip" install --quiet --disable-pip-version-check -r "$wanted"
cp "$wanted" "$1/installed"

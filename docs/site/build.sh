#!/bin/sh
# build.sh FOLDER [PYTHON]: builds the site into FOLDER/html. What Sphinx needs comes from PyPI into FOLDER/environment.
set -eu
[ $# = 1 ] || [ $# = 2 ] || { echo "usage: $0 FOLDER [PYTHON]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
"$here/../../cmake/environment.sh" "$folder/environment" "${2:-python3}" "$here/requirements.txt"
exec "$here/sphinx.sh" "$folder" "$folder/environment/bin/python"

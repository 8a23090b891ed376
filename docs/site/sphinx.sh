#!/bin/sh
# sphinx.sh FOLDER PYTHON: builds the site into FOLDER/html with Doxygen and Sphinx. PYTHON has what requirements.txt
# names. Warnings are errors.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$1
python=$2
command -v doxygen >/dev/null || { echo "doxygen is not installed (Debian: apt-get install doxygen)" >&2; exit 1; }
rm -rf "$folder/doxygen"
mkdir -p "$folder/doxygen"
# The public headers are those that protean.hpp includes, and what these show of others.
headers=$(sed -n 's/^#include <protean\/\(.*\)>/\1/p' "$root/protean.hpp")
{
  cat "$root/docs/site/Doxyfile"
  echo "OUTPUT_DIRECTORY = $folder/doxygen"
  echo "STRIP_FROM_PATH = $root"
  echo "INPUT_FILTER = \"python3 $root/docs/site/doxygen_comments.py\""
  echo "INPUT = $root/interfaces/c/protean.h \\"
  for header in $headers systems/settings.hpp systems/system_matrix.hpp systems/types.hpp \
      solvers/stopping.hpp core/buffer.hpp operators/abilities.hpp operators/wrapper.hpp; do
    echo "  $root/$header \\"
  done
  echo
} >"$folder/doxygen/Doxyfile"
doxygen "$folder/doxygen/Doxyfile" >"$folder/doxygen/log" 2>&1 || { cat "$folder/doxygen/log" >&2; exit 1; }
# A build that was ended before it wrote the index of the search leaves what the next one cannot go on with.
[ -e "$folder/html/searchindex.js" ] || rm -rf "$folder/doctrees"
PROTEAN_DOXYGEN_XML=$folder/doxygen/xml "$python" -m sphinx -q -W --keep-going -b html -c "$root/docs/site" \
  -d "$folder/doctrees" "$root" "$folder/html"
echo "$folder/html/docs/site/index.html"

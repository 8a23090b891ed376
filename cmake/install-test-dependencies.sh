#!/bin/sh
# install-test-dependencies.sh FOLDER: installs what the tests of the optional parts need, so that no test of the host
# is skipped: system packages (Debian, Ubuntu), and two virtual environments of Python: FOLDER/environment with MKL and
# MFEM from PyPI, and FOLDER/python-environment with what the Python package, its tests and the site of the
# documentation need. It takes about 4 GB on the disk. FOLDER/libraries.cmake then names these libraries for CMake:
#   cmake -C FOLDER/libraries.cmake --preset cpu-release
set -eu
[ $# = 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
"$(dirname "$0")/install-dependencies.sh" python3-venv python3-dev python3-scipy libtrilinos-kokkos-dev \
  libdeal.ii-dev petsc-dev libpetsc3.18-dev-examples python3-petsc4py openmpi-bin libmetis-dev libhypre-dev gfortran \
  libeigen3-dev chromium doxygen zsh fish dpkg-dev lintian shellcheck

environment=$folder/environment
wanted="mkl>=2026,<2027 mkl-devel>=2026,<2027 mfem>=4.10,<5"
if [ "$(cat "$environment/installed" 2>/dev/null || true)" != "$wanted" ]; then
  echo "Installing from PyPI: $wanted"
  rm -rf "$environment"
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check $wanted
  echo "$wanted" >"$environment/installed"
fi
mfem=$(find "$environment" -name MFEMConfig.cmake -path '*/ser/*')
[ -n "$mfem" ] || { echo "the package mfem in $environment has no MFEMConfig.cmake of a serial MFEM" >&2; exit 1; }

# One for both: most of what the notebook needs comes with the site.
source=$(cd "$(dirname "$0")/.." && pwd)
"$source/cmake/environment.sh" "$folder/python-environment" python3 "$source/docs/site/requirements.txt" \
  "$source/tests/interfaces/python/requirements.txt" "$source/tests/install/requirements.txt"

# What pip fetches for `pip install .`, so that a test does the same without a network.
wheels=$(sed -n 's/^requires = \[\(.*\)\]$/\1/p; s/^dependencies = \[\(.*\)\]$/\1/p' "$source/pyproject.toml" |
  tr ',' '\n' | tr -d '" ')
if [ "$(cat "$folder/wheels/fetched" 2>/dev/null || true)" != "$wheels" ]; then
  rm -rf "$folder/wheels"
  # shellcheck disable=SC2086
  "$folder/python-environment/bin/pip" download --quiet --disable-pip-version-check --dest "$folder/wheels" $wheels
  echo "$wheels" >"$folder/wheels/fetched"
fi

cat >"$folder/libraries.cmake" <<END
# Written by cmake/install-test-dependencies.sh. ON: configuring fails if the library is missing.
set(PROTEAN_KOKKOS ON CACHE STRING "" FORCE)
set(PROTEAN_MKL ON CACHE STRING "" FORCE)
set(PROTEAN_METIS ON CACHE STRING "" FORCE)
set(PROTEAN_HYPRE ON CACHE STRING "" FORCE)
set(PROTEAN_PETSC ON CACHE STRING "" FORCE)
set(MKL_ROOT "$environment" CACHE PATH "" FORCE)
set(MFEM_DIR "$(dirname "$mfem")" CACHE PATH "" FORCE)
set(PROTEAN_PYTHON ON CACHE BOOL "" FORCE)
set(Python_EXECUTABLE "$folder/python-environment/bin/python" CACHE FILEPATH "" FORCE)
set(PROTEAN_DOCS_PYTHON "$folder/python-environment/bin/python" CACHE FILEPATH "" FORCE)
set(PROTEAN_WHEELS "$folder/wheels" CACHE PATH "" FORCE)
END

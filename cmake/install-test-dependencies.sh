#!/bin/sh
# install-test-dependencies.sh FOLDER: installs what the tests of the optional parts need, so that no test of the host
# is skipped: system packages (Debian, Ubuntu), and three virtual environments of Python: FOLDER/environment with MKL
# and MFEM from PyPI, FOLDER/docs-environment with what the site of the documentation needs, and
# FOLDER/python-environment with what the Python package and its tests need. It takes about 4.6 GB on the disk.
# FOLDER/libraries.cmake then names these libraries for CMake:
#   cmake -C FOLDER/libraries.cmake --preset cpu-release
set -eu
[ $# = 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
"$(dirname "$0")/install-dependencies.sh" python3-venv python3-dev \
  python3-scipy libtrilinos-kokkos-dev libdeal.ii-dev petsc-dev \
  libpetsc3.18-dev-examples python3-petsc4py openmpi-bin libmetis-dev libhypre-dev gfortran chromium doxygen zsh fish

# install ENVIRONMENT PACKAGES: from PyPI, unless it has them
install() {
  [ "$(cat "$1/installed" 2>/dev/null || true)" != "$2" ] || return 0
  echo "Installing from PyPI: $2"
  rm -rf "$1"
  python3 -m venv "$1"
  # shellcheck disable=SC2086
  "$1/bin/pip" install --quiet --disable-pip-version-check $2
  echo "$2" >"$1/installed"
}
environment=$folder/environment
install "$environment" "mkl>=2026,<2027 mkl-devel>=2026,<2027 mfem>=4.10,<5"
# The tests of SciPy 1.18 run within SciPy's own test environment only.
install "$folder/python-environment" \
  "nanobind>=3.1 numpy scipy>=1.12,<1.18 pytest mypy pyamg pandas matplotlib scikit-fem"
mfem=$(find "$environment" -name MFEMConfig.cmake -path '*/ser/*')
[ -n "$mfem" ] || { echo "the package mfem in $environment has no MFEMConfig.cmake of a serial MFEM" >&2; exit 1; }

"$(dirname "$0")/../docs/site/environment.sh" "$folder/docs-environment" python3

cat >"$folder/libraries.cmake" <<END
# Written by cmake/install-test-dependencies.sh. ON: configuring fails where the library is missing.
set(PROTEAN_KOKKOS ON CACHE STRING "" FORCE)
set(PROTEAN_MKL ON CACHE STRING "" FORCE)
set(PROTEAN_METIS ON CACHE STRING "" FORCE)
set(PROTEAN_HYPRE ON CACHE STRING "" FORCE)
set(MKL_ROOT "$environment" CACHE PATH "" FORCE)
set(MFEM_DIR "$(dirname "$mfem")" CACHE PATH "" FORCE)
set(PROTEAN_PYTHON ON CACHE BOOL "" FORCE)
set(Python_EXECUTABLE "$folder/python-environment/bin/python" CACHE FILEPATH "" FORCE)
set(PROTEAN_DOCS_PYTHON "$folder/docs-environment/bin/python" CACHE FILEPATH "" FORCE)
END

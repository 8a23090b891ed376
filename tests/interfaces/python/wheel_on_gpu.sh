#!/bin/sh
# wheel_on_gpu.sh WHEEL PYTHON: installs a wheel with GPU code into a separate folder, without building anything, and
# runs the tests of arrays on a GPU with it. PYTHON has NumPy, pytest and CuPy; PyTorch and JAX are used if they are
# installed. Prints which of NVIDIA's libraries are taken: the ones that CuPy has loaded; and without CuPy the ones of
# packages, or the ones that the loader finds.
set -eu
[ $# = 2 ] || { echo "usage: $0 WHEEL PYTHON" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$2" -m pip install --quiet --disable-pip-version-check --no-deps --target "$folder" "$1"
PYTHONPATH=$folder
export PYTHONPATH
echo "== alone"
"$2" - <<'END'
import numpy as np
import protean
from protean import _core

print(protean.__file__, "GPUs:", _core.device_count())
A = protean.matrix(2 * np.eye(1000) - np.eye(1000, k=1) * 0.5 - np.eye(1000, k=-1) * 0.5, space="device")
report = protean.solve(A, np.ones(1000), preconditioner="jacobi")
print(report)
print("taken:", *_core.nvidia_libraries())
assert report.converged
END
echo "== after CuPy"
"$2" - <<'END'
import cupy
import cupyx.scipy.sparse as sparse

x = cupy.ones(9)
(sparse.identity(9, format="csr") @ x).sum(), cupy.eye(9) @ x  # it loads its own libraries
import protean
from protean import _core

print("taken:", *_core.nvidia_libraries())
assert protean.solve(sparse.identity(9, format="csr"), x).converged
END
cd "$here"
"$2" -m pytest -q -rs -p no:cacheprovider test_device.py test_device_refusals.py test_nvidia_libraries.py

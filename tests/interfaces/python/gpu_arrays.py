"""Matrices and vectors of the tests of arrays on a GPU. SciPy is not needed here."""

import numpy as np
import pytest

from protean import _core

NO_GPU = "" if _core.device_count() else "no device: " + (
    "no GPU was found" if _core.has_gpu_code else "the package was built without CUDA"
)
on_gpu = pytest.mark.skipif(bool(NO_GPU), reason=NO_GPU)


def arrays(n, dtype=np.float64, skew=0.0):
    """The five-point stencil of an n x n grid as indptr, indices and data, both int32; `skew` makes it unsymmetric."""
    rows = np.arange(n * n)
    i, j = rows // n, rows % n
    parts = [
        (i > 0, -n, -1.0),
        (j > 0, -1, -1.0 - skew),
        (i >= 0, 0, 4.0),
        (j < n - 1, 1, -1.0 + skew),
        (i < n - 1, n, -1.0),
    ]
    there = np.stack([part[0] for part in parts], axis=1)
    indices = np.stack([rows + part[1] for part in parts], axis=1)[there]
    data = np.broadcast_to([part[2] for part in parts], there.shape)[there]
    indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    return indptr.astype(np.int32), indices.astype(np.int32), np.ascontiguousarray(data, dtype=dtype)


class Csr:
    """A matrix as many libraries have it: three arrays and a shape."""

    format = "csr"

    def __init__(self, parts, shape):
        self.indptr, self.indices, self.data = parts
        self.shape, self.dtype = shape, self.data.dtype

    def tocsr(self):
        return self


def host(n, dtype=np.float64, skew=0.0):
    return Csr(arrays(n, dtype, skew), (n * n, n * n))


def dense_product(n, x, skew=0.0):
    indptr, indices, data = arrays(n, skew=skew)
    rows = np.repeat(np.arange(n * n), np.diff(indptr))
    y = np.zeros(x.shape)
    np.add.at(y, rows, (data if x.ndim == 1 else data[:, None]) * np.asarray(x, dtype=np.float64)[indices])
    return y


def vector(size, seed=1, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal(size).astype(dtype)


def cupy_csr(cupy, sparse, n, dtype=np.float64, skew=0.0):
    indptr, indices, data = (cupy.asarray(one) for one in arrays(n, dtype, skew))
    return sparse.csr_matrix((data, indices, indptr), shape=(n * n, n * n))

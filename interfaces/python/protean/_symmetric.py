"""What `protean.linalg.minres` makes of its matrix: A - shift I, and a check of symmetry."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._convert import csr_arrays, dtype_of, shape_of
from ._matrix import Matrix
from ._vectors import Array, F32, F64, is_float32, real_array
from .errors import BadArgument


class _Shifted:
    """A - shift I, as an operator."""

    def __init__(self, A: Any, shift: float) -> None:
        self.shape = shape_of(A)
        self.dtype = dtype_of(A)
        self._product = A.matvec if hasattr(A, "matvec") else A.__matmul__
        self._shift = shift

    def matvec(self, x: Array) -> Array:
        return np.asarray(self._product(x)).reshape(-1) - self._shift * x


def shifted(A: Any, shift: float) -> Any:
    shape = shape_of(A)
    if isinstance(A, Matrix) or (hasattr(A, "matvec") and not hasattr(A, "tocsr")):
        return _Shifted(A, shift)
    kind = F32 if is_float32(dtype_of(A)) else F64
    if hasattr(A, "tocsr"):
        from scipy.sparse import csr_array, eye_array

        _, _, indptr, indices, data = csr_arrays(A, kind)
        return csr_array((data, indices, indptr), shape=shape) - shift * eye_array(shape[0], dtype=kind)
    dense: Any = np.array(real_array(A, "the matrix"), dtype=kind)
    dense[np.diag_indices(min(shape))] -= shift
    return dense


def check_symmetric(A: Any, M: Any, b: Any) -> None:
    """v . (B w) is w . (B v) for a symmetric B, with w = B v.

    Source: Paige and Saunders, SIAM J. Numer. Anal. 12 (1975) 617.
    """
    vector = np.asarray(real_array(b, "b"), dtype=F64).reshape(-1)
    for B, what in ((A, "matrix"), (M, "preconditioner")):
        if B is None or isinstance(B, (str, dict)):
            continue
        product = B.matvec if hasattr(B, "matvec") else (B if hasattr(B, "dot") else np.asarray(B)).dot
        w = np.asarray(product(vector)).reshape(-1)
        s, t = float(w @ w), float(vector @ np.asarray(product(w)).reshape(-1))
        eps = float(np.finfo(F64).eps)
        if abs(s - t) > (s + eps) * eps ** (1 / 3):
            raise BadArgument(f"non-symmetric {what}")

"""From whatever the caller has to what the extension takes: matrices, vectors, preconditioners."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from . import _core, _device
from ._vectors import F32, F64, I32, Array, is_float32, real_array, whole_number
from .errors import BadArgument, ShapeMismatch

if TYPE_CHECKING:
    CoreMatrix = Union[_core.MatrixF64, _core.MatrixF32]
    CoreSource = Union[_core.SourceF64, _core.SourceF32]

_threads = 0


def set_threads(threads: int) -> None:
    """Set the number of threads of matrices that are made from now on.

    Parameters
    ----------
    threads : int
        0 for the default: ``OMP_NUM_THREADS`` if it is set, else the processors that the process may use.

    Examples
    --------
    >>> import protean
    >>> protean.set_threads(1)
    >>> protean.get_threads()
    1
    >>> protean.set_threads(0)
    """
    global _threads
    _threads = whole_number(threads, "threads")


def get_threads() -> int:
    """Return the number of threads of matrices that are made from now on."""
    return _threads or _core.default_threads()


def threads_of(threads: int | None) -> int:
    if threads is None:
        return _threads
    return whole_number(threads, "threads")


class iterate_kept:
    """Within it, KeyboardInterrupt gets the iterate as its attribute ``x``."""

    __slots__ = ("_x",)

    def __init__(self, x: Any) -> None:
        self._x = x

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, KeyboardInterrupt):
            error.x = self._x  # type: ignore[attr-defined]


def require_no_callback(callback: object) -> None:
    if callback is not None:
        raise BadArgument("a callback is for one right-hand side; solve the columns one after another")


def vector_function(function: Callable[[Array], Any], dtype: Any) -> Callable[[Array], Array]:
    """A function that returns a contiguous vector of this type."""

    def call(x: Array) -> Array:
        y = real_array(function(x), "what a function returned")
        return np.ascontiguousarray(y, dtype=dtype).reshape(-1)

    return call


def _index(array: Any, what: str) -> Array:
    if isinstance(array, np.ma.MaskedArray):
        raise BadArgument(f"{what} is a masked array, and masks are not heeded; give an array without one")
    array = np.asarray(array)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{what} is an array of {array.dtype}; indices must be integers, such as int32")
    if array.dtype != np.int32 and array.dtype != np.int64:
        if array.size and array.max() > np.iinfo(np.int64).max:
            raise BadArgument(f"{what} has the index {array.max()}, which no matrix has")
        array = array.astype(np.int64)
    return np.ascontiguousarray(array)


def is_sparse(A: Any) -> bool:
    return hasattr(A, "tocsr") and hasattr(A, "shape")


def csr_arrays(A: Any, dtype: Any) -> tuple[int, int, Array, Array, Array]:
    """Rows, columns, indptr, indices, data; no copies if the arrays of A are already CSR of this type."""
    other = _device.host_csr(A)
    if other is not None:
        rows, cols, *arrays = other
    elif is_sparse(A):
        rows, cols = shape_of(A)
        csr = A.tocsr()
        arrays = [csr.indptr, csr.indices, csr.data]
    else:
        return _csr_of_dense(A, dtype)
    indptr, indices, data = arrays
    data = np.ascontiguousarray(real_array(data, "the data of the matrix"), dtype=dtype)
    return rows, cols, _index(indptr, "indptr"), _index(indices, "indices"), data


def _csr_of_dense(A: Any, dtype: Any) -> tuple[int, int, Array, Array, Array]:
    dense = real_array(A, "the matrix")
    rows, cols = shape_of(dense)
    row, col = dense.nonzero()
    indptr = np.zeros(rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(row, minlength=rows), out=indptr[1:])
    return rows, cols, indptr, _index(col, "indices"), np.ascontiguousarray(dense[row, col], dtype=dtype)


def dtype_of(A: Any) -> Any:
    """The type of the entries of whatever may be a matrix."""
    dtype = getattr(A, "dtype", None)
    if _device.is_torch(A):
        return np.dtype(str(dtype).removeprefix("torch."))
    if dtype is None:
        dtype = F64 if hasattr(A, "matvec") else real_array(A, "the matrix").dtype
    return np.dtype(dtype)


def shape_of(A: Any) -> tuple[int, int]:
    shape = getattr(A, "shape", None)
    if shape is None:
        shape = real_array(A, "the matrix").shape
    if len(shape) != 2:
        raise ShapeMismatch(f"the matrix has {len(shape)} dimension{'' if len(shape) == 1 else 's'}; it must have 2")
    return int(shape[0]), int(shape[1])


def core_matrix(A: Any, single: bool, threads: int, ordinal: int = -1) -> CoreMatrix:
    """The matrix of the extension, with values in float32 (`single`) or float64.

    ordinal: the GPU to which arrays of the host are copied. Without it arrays stay where they are, on the host or on a
    GPU.
    """
    made = _core.MatrixF32 if single else _core.MatrixF64
    if ordinal < 0 and getattr(A, "format", None) == "csr":  # the common case, without detours
        indptr, indices, data = A.indptr, A.indices, A.data
        kind = F32 if single else F64
        plain = type(data) is type(indptr) is type(indices) is np.ndarray
        if plain and data.dtype is kind and indptr.dtype is I32 and indices.dtype is I32:
            rows, cols = shape_of(A)
            try:
                return made.of_csr(rows, cols, indptr, indices, data, (indptr, indices, data), threads)
            except TypeError:
                pass  # arrays with strides
    if ordinal < 0:
        arrays = _device.csr_on_device(A)
        if arrays is not None:
            rows, cols, *parts = arrays
            views = [_device.taken(part, what) for part, what in zip(parts, ("indptr", "indices", "data"))]
            return made.of_device_csr(rows, cols, views[0], views[1], views[2], tuple(parts))
    if not is_sparse(A) and hasattr(A, "matvec"):
        if _device.on_device_operator(A):
            raise BadArgument(
                "a LinearOperator of CuPy is a function, and functions of Python compute on the host only; give a "
                "matrix"
            )
        rows, cols = shape_of(A)
        return made.of_function(rows, cols, vector_function(A.matvec, F32 if single else F64), threads)
    rows, cols, indptr, indices, data = csr_arrays(A, F32 if single else F64)
    return made.of_csr(rows, cols, indptr, indices, data, (indptr, indices, data), threads, ordinal)


def columns_of(b: Array, dtype: Any) -> Array:
    """b of shape (n, k) with the entries of a row, or of a column, side by side."""
    b = np.asarray(b, dtype=dtype)
    size = b.itemsize
    if b.strides[0] == size and b.strides[1] >= size * b.shape[0]:
        return b
    if b.strides[1] == size and b.strides[0] >= size * b.shape[1]:
        return b
    return np.ascontiguousarray(b)

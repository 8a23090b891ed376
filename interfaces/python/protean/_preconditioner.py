"""Preconditioners of this library by name, and preconditioners of other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core, _device
from ._convert import core_matrix, dtype_of, is_sparse, shape_of, threads_of, vector_function
from ._matrix import Matrix, matrix
from ._vectors import Array, F32, F64, finite, is_float32, real_array
from .errors import BadArgument, ShapeMismatch

if TYPE_CHECKING:
    from ._convert import CoreMatrix, CoreSource


class Preconditioner:
    """M of this library, set up for a matrix. ``M @ r`` is M^-1 r. `preconditioner` makes it."""

    def __init__(self, of: Matrix, given: str | dict[str, Any]) -> None:
        self._matrix = of
        self._given = given
        core = of._core
        self._core: _core.PreconditionerF32 | _core.PreconditionerF64
        if isinstance(core, _core.MatrixF32):
            self._core = _core.PreconditionerF32(core, given)
        else:
            self._core = _core.PreconditionerF64(core, given)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._core.rows, self._core.rows

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the vectors, which is the type of the matrix."""
        return self._matrix.dtype

    @property
    def name(self) -> str:
        """The name, such as "ic0"."""
        return self._core.name

    @property
    def symmetric(self) -> bool:
        """Whether M is symmetric if the matrix is. cg and minres only take such an M."""
        return self._core.symmetric

    @property
    def bytes(self) -> int:
        """Bytes of all its arrays."""
        return self._core.bytes

    @property
    def figures(self) -> dict[str, float]:
        """Numbers that describe the setup, such as the shift of an incomplete factorization."""
        return self._core.figures

    def update(self) -> None:
        """Set M up again after `Matrix.update`; it does nothing if the matrix has not changed."""
        self._core.update()

    def matvec(self, r: Any) -> Any:
        """M^-1 r, as ``M @ r``. Where M lies on a GPU, r may be there, too; see `Matrix`."""
        ordinal = self._matrix._core.ordinal
        if ordinal >= 0 and _device.on_device(r):
            z, into = _device.result_like(r, ordinal, tuple(r.shape), self.dtype)
            self._core.apply(_device.taken(r, "r"), into)
            return _device.given_back(z, r)
        _device.require_host(r, "r")
        r = real_array(r, "r")
        if r.ndim == 2 and r.shape[1] == 1:
            return self.matvec(r[:, 0])[:, np.newaxis]
        if r.shape != (self._core.rows,):
            raise ShapeMismatch(f"r has shape {r.shape}; M is for vectors of {self._core.rows} entries")
        given = np.ascontiguousarray(r, dtype=self.dtype)
        if ordinal >= 0:
            into = _core.DeviceArray.make(ordinal, r.shape, self.dtype.name, False)
            self._core.apply(_device.to_device(given, ordinal), into)
            return _device.to_numpy(into)
        z = np.empty(self._core.rows, dtype=self.dtype)
        self._core.apply(given, z)
        return z

    __matmul__ = matvec

    def aspreconditioner(self) -> Any:
        """M as a `scipy.sparse.linalg.LinearOperator`, for SciPy's own solvers. It needs SciPy."""
        from scipy.sparse.linalg import LinearOperator

        return LinearOperator(self.shape, matvec=self.matvec, dtype=self.dtype)

    def __repr__(self) -> str:
        return f"<protean.Preconditioner {self.name} of {self.shape[0]} x {self.shape[1]}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Preconditioner, (self._matrix, self._given)


def preconditioner(name: str, A: Any, **options: Any) -> Preconditioner:
    """Set up a preconditioner of this library for a matrix.

    Parameters
    ----------
    name : str
        A name of `preconditioners`, such as "jacobi", "ic0", "ilu0".
    A : Matrix, sparse array or matrix, or array of shape (n, n)
        The matrix.
    **options
        Options of the preconditioner (`options`), such as ``fill=2``. "amg" and "auto" also take ``near_null_space``,
        an array of shape (n, k) with vectors that A maps nearly to zero, such as the result of `rigid_body_modes`.
        "fields" also takes ``labels``, an array of n whole numbers: rows of equal labels form a field.

    Returns
    -------
    Preconditioner
        To be given as M to the functions of `protean.linalg`, or as `preconditioner` to `solve`. Its function
        `Preconditioner.aspreconditioner` makes an operator for SciPy of it.

    Examples
    --------
    >>> import numpy as np, protean
    >>> M = protean.preconditioner("jacobi", np.diag([2.0, 4.0]))
    >>> M @ np.ones(2)
    array([0.5 , 0.25])
    """
    return Preconditioner(A if isinstance(A, Matrix) else matrix(A), {"type": name, **options})


def rigid_body_modes(coordinates: Any) -> Any:
    """The rigid body modes of an elastic body, for ``near_null_space`` of "amg" and "auto".

    Parameters
    ----------
    coordinates : array of shape (nodes, 2) or (nodes, 3)
        Where the nodes are.

    Returns
    -------
    ndarray of shape (nodes * 2, 3) or (nodes * 3, 6)
        Translations, then rotations about the middle of the nodes. Row d i + k belongs to the displacement of node i
        along axis k, d being the number of coordinates.

    Examples
    --------
    >>> import numpy as np, protean
    >>> B = protean.rigid_body_modes(np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]))
    >>> B.shape
    (6, 3)
    >>> elastic = {"type": "amg", "unknowns": 2, "near_null_space": B}
    """
    array = np.asarray(finite(real_array(coordinates, "coordinates"), "coordinates"), dtype=np.float64)
    if array.ndim != 2:
        raise ShapeMismatch(f"the coordinates have {array.ndim} dimensions; they must have two, nodes x axes")
    return _core.rigid_body_modes(array)


def _ordinal(M: Matrix | Preconditioner) -> int:
    return (M if isinstance(M, Matrix) else M._matrix)._core.ordinal


def _source_on_device(M: Any, of: CoreMatrix, dtype: Any) -> CoreSource:
    """M of a matrix on a GPU: one of this library, or a matrix."""
    if not isinstance(M, (Matrix, Preconditioner)):
        if not is_sparse(M) and (hasattr(M, "matvec") or hasattr(M, "solve") or hasattr(M, "aspreconditioner")):
            raise BadArgument(
                f"the preconditioner is of type {type(M).__name__}, a function of Python, which computes on the host "
                "only, and the matrix lies on a GPU; give a name such as 'jacobi', or a matrix that approximates the "
                "inverse"
            )
        M = matrix(M, space=f"device:{of.ordinal}")
    if _ordinal(M) != of.ordinal:
        where = "in host memory" if _ordinal(M) < 0 else f"on GPU {_ordinal(M)}"
        raise BadArgument(f"the preconditioner lies {where} and the matrix on GPU {of.ordinal}; make it there")
    if M.shape != of.shape:
        raise ShapeMismatch(f"matrix and preconditioner have different shapes, {of.shape} and {M.shape}")
    if M.dtype != dtype:
        raise BadArgument(f"the preconditioner is {M.dtype} and the matrix {dtype}; make it of the same type")
    if isinstance(M, Preconditioner):
        return M._core
    if isinstance(M._core, _core.MatrixF32):
        return _core.SourceF32.of_matrix(M._core)
    return _core.SourceF64.of_matrix(M._core)


def source_of(M: Any, of: CoreMatrix, single: bool) -> CoreSource | None:
    """What the extension makes a preconditioner of: M in all forms in which callers have it."""
    if M is None:
        return None
    dtype = F32 if single else F64
    rows = of.shape[0]
    if isinstance(M, (str, dict)):
        if M == "none":
            return None
        given = {"type": M} if isinstance(M, str) else M
        return (_core.SourceF32 if single else _core.SourceF64).of_name(given)
    source = _core.SourceF32 if single else _core.SourceF64
    if of.ordinal >= 0:
        return _source_on_device(M, of, dtype)
    if isinstance(M, (Matrix, Preconditioner)) and _ordinal(M) >= 0:
        raise BadArgument(
            f"the preconditioner lies on GPU {_ordinal(M)} and the matrix in host memory; make both in the same space"
        )
    if isinstance(M, Preconditioner):
        if M.shape != of.shape:
            raise ShapeMismatch(f"matrix and preconditioner have different shapes, {of.shape} and {M.shape}")
        if M.dtype == dtype:
            return M._core
        return source.of_function(vector_function(M.matvec, dtype), rows)
    if isinstance(M, Matrix) and M.dtype == dtype:
        if M.shape != of.shape:
            raise ShapeMismatch(f"matrix and preconditioner have different shapes, {of.shape} and {M.shape}")
        return source.of_matrix(M._core)  # type: ignore[arg-type]
    if hasattr(M, "aspreconditioner") and not hasattr(M, "matvec"):
        M = M.aspreconditioner()  # a hierarchy of pyamg
    if not is_sparse(M) and not isinstance(M, np.ndarray) and not hasattr(M, "matvec") and hasattr(M, "solve"):
        if tuple(M.shape) != of.shape:  # the factors of spilu() and splu()
            raise ShapeMismatch(f"matrix and preconditioner have different shapes, {of.shape} and {tuple(M.shape)}")
        return source.of_function(vector_function(M.solve, dtype), rows)
    if not hasattr(M, "shape") and not isinstance(M, (list, tuple)):
        raise BadArgument(
            f"the preconditioner is of type {type(M).__name__}; it must be a matrix that approximates the inverse, a "
            "LinearOperator, an object with solve(), or a name such as 'jacobi'"
        )
    if shape_of(M) != of.shape:
        raise ShapeMismatch(f"matrix and preconditioner have different shapes, {of.shape} and {shape_of(M)}")
    if hasattr(M, "matvec") and not is_sparse(M):
        return source.of_function(vector_function(M.matvec, dtype), rows)
    is_float32(dtype_of(M))
    return source.of_matrix(core_matrix(M, single, threads_of(None)))  # type: ignore[arg-type]

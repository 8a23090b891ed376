"""A matrix in one of the storage formats, and products with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core, _device
from ._convert import columns_of, core_matrix, csr_arrays, dtype_of, is_sparse, threads_of
from ._vectors import Array, F32, F64, is_float32, real_array
from .errors import BadArgument, ShapeMismatch

if TYPE_CHECKING:
    from ._convert import CoreMatrix

Parameters = dict[str, "int | str"]


class Matrix:
    """A sparse matrix whose storage format may change. `matrix` makes it.

    Products ``A @ x`` take vectors of shape (n,) and blocks of shape (n, k). Where the matrix lies on a GPU and x is an
    array of CuPy, PyTorch or JAX there, the result is one, too; an x of NumPy is copied there, and the result back.
    Several threads may use one matrix; one of them computes with it at a time. Matrices on one GPU take turns.
    """

    # NumPy leaves products with an array on the left to us.
    __array_priority__ = 1000.0
    __array_ufunc__ = None

    def __init__(self, core: CoreMatrix) -> None:
        self._core = core
        self._transposed: Matrix | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._core.shape

    @property
    def ndim(self) -> int:
        """2, as of any matrix."""
        return 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the entries, float32 or float64."""
        return F32 if isinstance(self._core, _core.MatrixF32) else F64

    @property
    def nnz(self) -> int:
        """The number of stored entries; explicit zeros count."""
        return self._core.nonzeros

    @property
    def space(self) -> str:
        """Where it lies and computes: "host", or "device" for a GPU."""
        return "host" if self._core.ordinal < 0 else "device"

    @property
    def device(self) -> int | None:
        """The number of its GPU; None on the host."""
        return None if self._core.ordinal < 0 else self._core.ordinal

    @property
    def format(self) -> str:
        """The storage format in which it computes now. After ``matrix(A)`` that is csr until a solve chooses."""
        return self._core.format

    @property
    def kernel(self) -> str:
        """Whose code computes the products, "native" for our own."""
        return self._core.kernel

    @property
    def order(self) -> str:
        """The order of the rows in which it computes, "none" for the caller's. Vectors keep the caller's order."""
        return self._core.order

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of the present format."""
        return self._core.parameters

    @property
    def bytes(self) -> int:
        """Bytes of all arrays of the present format."""
        return self._core.bytes

    @property
    def format_reason(self) -> str:
        """Why format "auto" took what it did; empty if it was not asked."""
        return self._core.format_reason

    @property
    def threads(self) -> int:
        """The number of threads of its products and of solves with it."""
        return self._core.threads

    def convert(
        self,
        format: str,
        parameters: Parameters | None = None,
        *,
        kernel: str = "",
        order: str | None = None,
    ) -> Matrix:
        """Change the storage format.

        Parameters
        ----------
        format : str
            The name of a format (`formats`), or "auto" for the smallest predicted time of a solve.
        parameters : dict, optional
            Parameters of the format, such as ``{"C": 8, "sigma": 64}``.
        kernel : str, optional
            Whose code computes the products; empty for the default.
        order : str, optional
            The order of the rows, such as "rcm"; "none" for the caller's. Left out, the order stays.

        Returns
        -------
        Matrix
            The same matrix.

        Raises
        ------
        FormatRefused
            The format cannot store this matrix. The matrix keeps the format that it has.
        BadArgument
            An unknown name, a parameter out of range, or a solve that runs with the matrix.

        Examples
        --------
        >>> import numpy as np, protean
        >>> A = protean.matrix(np.eye(100))
        >>> A.convert("sell-packed").format
        'sell-packed'
        """
        self._core.convert(format, parameters, kernel, order)
        return self

    def update(self, values: Any) -> None:
        """Set new values of the same pattern. The format, the order and the analysis of the pattern stay.

        Parameters
        ----------
        values : array of shape (nnz,), or sparse matrix
            In the order of ``data`` of the CSR arrays that the matrix was made of, and where these are, on the host or
            a GPU; an array of the right type is not copied. A sparse matrix of the same pattern will do, too; it must
            be given if the matrix was made of anything except CSR with sorted rows.

        Raises
        ------
        ShapeMismatch
            Another number of values, or another pattern.
        BadMatrix
            A value that is not finite.

        Examples
        --------
        >>> import numpy as np, protean
        >>> A = protean.matrix(np.diag([1.0, 2.0]))
        >>> A.update(np.diag([3.0, 4.0]))
        >>> A @ np.ones(2)
        array([3., 4.])
        """
        self._transposed = None
        if self._core.given_on_device and not is_sparse(values):
            taken = _device.taken(values, "values")
            self._core.update(taken, values)
            return
        if not is_sparse(values) and not _device.on_device(values):
            values = real_array(values, "values")
        if is_sparse(values) or np.ndim(values) == 2:
            other = core_matrix(values, self.dtype == F32, 1)
            if other.ordinal != (self._core.ordinal if self._core.given_on_device else -1):
                raise BadArgument(
                    "the new values lie in another memory than the matrix; give them there, or "
                    "make a new Matrix"
                )
            indptr, indices, data = other.csr()
            own = self._core.csr()
            if other.shape != self.shape or not (np.array_equal(indptr, own[0]) and np.array_equal(indices, own[1])):
                raise ShapeMismatch("the new matrix has another pattern; make a new Matrix of it")
            if self._core.given_on_device:
                self._core.update(_device.taken(values.tocsr().data, "values"), values)
                return
        else:
            if not self._core.borrowed:
                raise BadArgument(
                    "the matrix was not made of CSR arrays with sorted rows, so the order of its entries is not yours; "
                    "give the new values as a sparse matrix of the same pattern"
                )
            if _device.on_device(values):
                raise BadArgument(
                    "the new values lie on a GPU and the matrix was made of arrays of the host; give them there, or "
                    "make a new Matrix"
                )
            data = np.ascontiguousarray(values, dtype=self.dtype)
        self._core.update(data, data)

    @property
    def T(self) -> Matrix:
        """The transpose, a separate matrix in csr. It is made once, on the host, and again after `update`."""
        if self._transposed is None:
            self._transposed = Matrix(self._core.transposed())
        return self._transposed

    def __matmul__(self, x: Any) -> Any:
        if self._core.ordinal >= 0:
            return self._product_on_device(x)
        _device.require_host(x, "x")
        x = real_array(x, "x")
        rows, cols = self.shape
        if x.ndim not in (1, 2) or x.shape[0] != cols:
            raise ShapeMismatch(f"the matrix is {rows} x {cols} and x has shape {x.shape}; x must have {cols} rows")
        if x.ndim == 1:
            y = np.empty(rows, dtype=self.dtype)
            self._core.apply(np.ascontiguousarray(x, dtype=self.dtype), y)
            return y
        x = columns_of(x, self.dtype)
        by_columns = x.strides[0] == x.itemsize
        Y = np.empty((rows, x.shape[1]), dtype=self.dtype, order="F" if by_columns else "C")
        self._core.apply_columns(x, Y)
        return Y

    def _product_on_device(self, x: Any, transposed: bool = False) -> Any:
        given_x, there = x, _device.on_device(x)
        if there:
            x = _device.seen(x, "x")
        else:
            x = real_array(x, "x")
            x = np.asarray(x, dtype=self.dtype, order="K" if x.flags.forc else "C")
        rows, cols = self.shape[::-1] if transposed else self.shape
        shape = tuple(x.shape)
        if len(shape) not in (1, 2) or shape[0] != cols:
            raise ShapeMismatch(f"the matrix is {rows} x {cols} and x has shape {shape}; x must have {cols} rows")
        given = _device.taken(x, "x") if there else _device.to_device(x, self._core.ordinal)
        by_columns = len(shape) == 2 and given.strides[0] == self.dtype.itemsize
        y, into = _device.result_like(x, self._core.ordinal, (rows, *shape[1:]), self.dtype, by_columns)
        (self._core.apply_transposed if transposed else self._core.apply)(given, into)
        return _device.given_back(y, given_x) if there else _device.to_numpy(into)

    def __rmatmul__(self, x: Any) -> Any:
        x = x if _device.on_device(x) else real_array(x, "x")
        return self.rmatvec(x) if len(x.shape) == 1 else (self.T @ x.T).T

    def matvec(self, x: Any) -> Any:
        """The product with a vector, as ``A @ x``; a `LinearOperator` of SciPy has this function."""
        return self.__matmul__(x)

    def rmatvec(self, x: Any) -> Any:
        """The product of the transpose with a vector, as ``A.T @ x``.

        It makes no other `Matrix`. Formats csc and sss compute it with what they hold; others keep the transpose in csr
        from the first such product on, until `update` or `convert`.
        """
        there = _device.on_device(x)
        if self._transposed is not None or (there and self._core.ordinal < 0):
            return self.T.__matmul__(x)
        x = x if there else real_array(x, "x")
        if len(x.shape) != 1:
            return self.T.__matmul__(x)
        if self._core.ordinal >= 0:
            return self._product_on_device(x, transposed=True)
        rows, cols = self.shape
        if x.shape[0] != rows:
            raise ShapeMismatch(f"the matrix is {cols} x {rows} and x has shape {x.shape}; x must have {rows} rows")
        y = np.empty(cols, dtype=self.dtype)
        self._core.apply_transposed(np.ascontiguousarray(x, dtype=self.dtype), y)
        return y

    dot = __matmul__

    def csr(self) -> tuple[Array, Array, Array]:
        """Copies of the entries as CSR arrays ``(indptr, indices, data)`` with sorted rows."""
        return self._core.csr()

    def tocsr(self) -> Any:
        """The matrix as a `scipy.sparse.csr_array`, a copy. It needs SciPy."""
        from scipy.sparse import csr_array

        indptr, indices, data = self.csr()
        return csr_array((data, indices, indptr), shape=self.shape)

    def aslinearoperator(self) -> Any:
        """The matrix as a `scipy.sparse.linalg.LinearOperator`. It needs SciPy."""
        from scipy.sparse.linalg import LinearOperator

        return LinearOperator(
            self.shape,
            matvec=self.__matmul__,
            matmat=self.__matmul__,
            rmatvec=self.rmatvec,
            dtype=self.dtype,
        )

    def __repr__(self) -> str:
        rows, cols = self.shape
        order = "" if self.order == "none" else f", order {self.order}"
        gpu = "" if self.device is None else f", on GPU {self.device}"
        return f"<protean.Matrix {rows} x {cols}, {self.nnz} entries of {self.dtype}, format {self.format}{order}{gpu}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._core.is_function:
            raise TypeError("an operator that is a function of yours cannot be pickled")
        core = self._core
        chosen = core.wanted_format != "auto" or core.format_reason != ""
        format = core.format if chosen else "auto"
        return _rebuild, (
            self.shape,
            self.csr(),
            format,
            core.parameters if chosen else {},
            self.kernel,
            self.order,
            core.ordinal,
        )


def _rebuild(
    shape: tuple[int, int],
    arrays: tuple[Array, Array, Array],
    format: str,
    parameters: Parameters,
    kernel: str,
    order: str,
    ordinal: int = -1,
) -> Matrix:
    indptr, indices, data = arrays
    made = _core.MatrixF32 if data.dtype == F32 else _core.MatrixF64
    core = made.of_csr(shape[0], shape[1], indptr, indices, data, arrays, threads_of(None), ordinal)
    core.want(format, parameters, kernel if format != "auto" else "", order)
    core.settle()
    return Matrix(core)


def _kind_of(dtype: Any) -> np.dtype[Any]:
    kind: np.dtype[Any] = np.dtype(dtype)
    if kind not in (F32, F64) and kind.kind != "c":
        raise BadArgument(f"dtype is {kind}; it must be float32 or float64")
    return kind


def matrix(
    A: Any,
    format: str = "auto",
    parameters: Parameters | None = None,
    *,
    kernel: str = "",
    order: str = "none",
    space: str | None = None,
    dtype: Any = None,
    threads: int | None = None,
) -> Matrix:
    """Make a `Matrix`.

    Parameters
    ----------
    A : sparse array or matrix, array of shape (m, n), or Matrix
        Arrays of a CSR matrix of float32 or float64 with sorted rows and int32 indices are used where they are, without
        a copy: change them by `Matrix.update` only. All others are converted once. On a GPU: a sparse matrix of CuPy, a
        tensor of PyTorch, or any object with indptr, indices and data there; its rows must be sorted.
    format : str, optional
        The name of a format (`formats`), which is made at once. "auto": the next solve chooses, since its method
        matters; until then products run in csr.
    parameters : dict, optional
        Parameters of the format.
    kernel : str, optional
        Whose code computes the products; empty for the default.
    order : str, optional
        The order of the rows in products and solves: "none", "auto" or a name such as "rcm". Vectors keep yours.
    space : {"host", "device"}, optional
        Where the matrix shall lie and compute. Left out: where A lies. "device" copies a matrix of the host to GPU 0,
        "device:1" to GPU 1; "host" copies one from a GPU.
    dtype : {float32, float64}, optional
        The type of the entries. Left out: float32 where A has it, else float64.
    threads : int, optional
        The number of threads. Left out: the number given to `set_threads`.

    Raises
    ------
    FormatRefused, BadMatrix, BadArgument, NotAvailable
        See `protean.errors`.

    Examples
    --------
    >>> import numpy as np, protean
    >>> A = protean.matrix(np.array([[2.0, -1.0], [-1.0, 2.0]]), format="ell")
    >>> A @ np.array([1.0, 1.0])
    array([1., 1.])
    >>> A
    <protean.Matrix 2 x 2, 4 entries of float64, format ell>
    """
    ordinal = None if space is None else _device.ordinal_of(space)
    if isinstance(A, Matrix):
        single = is_float32(_kind_of(dtype)) if dtype is not None else A.dtype == F32
        indptr, indices, data = A.csr()
        rows, cols = A.shape
        if ordinal is None:
            ordinal = A._core.ordinal
    else:
        if not is_sparse(A) and hasattr(A, "matvec"):
            raise BadArgument(
                "a LinearOperator has no entries, and so no storage format; give it to solve() or to protean.linalg as "
                "it is"
            )
        single = is_float32(_kind_of(dtype) if dtype is not None else dtype_of(A))
        there = _device.csr_on_device(A)
        lies = -1 if there is None else _device.taken(there[4], "data").ordinal
        if there is not None and ordinal is not None and ordinal >= 0 and ":" in str(space) and ordinal != lies:
            raise BadArgument(f"space is '{space}' and A lies on GPU {lies}; copy it there first")
        if ordinal is None or (ordinal >= 0 and lies >= 0) or ordinal == lies:
            core = core_matrix(A, single, threads_of(threads))
            core.want(format, parameters, kernel, order)
            core.settle()
            return Matrix(core)
        rows, cols, indptr, indices, data = csr_arrays(A, F32 if single else F64)
    data = np.ascontiguousarray(data, dtype=F32 if single else F64)
    made = _core.MatrixF32 if single else _core.MatrixF64
    core = made.of_csr(rows, cols, indptr, indices, data, (indptr, indices, data), threads_of(threads), ordinal)
    core.want(format, parameters, kernel, order)
    core.settle()
    return Matrix(core)

"""One solve with all that the library can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import _core, _device
from ._convert import columns_of, core_matrix, dtype_of, iterate_kept, require_no_callback, threads_of
from ._matrix import Matrix
from ._preconditioner import source_of
from ._report import Iteration, Report
from ._vectors import Array, F32, F64, finite, guess_of, is_float32, real_array
from .errors import BadArgument, ShapeMismatch

# Of float32, about the root of its unit of rounding, as 1e-8 is of float64. b - A x cannot be smaller than that unit
# times |A| |x| / |b|, so that a smooth b on a grid of 60 x 60 ends above 1e-5.
_FLOAT_TOLERANCE = 1e-4


def _with_iterate(callback: Callable[[Iteration], object] | None, x: Any) -> Callable[..., object] | None:
    """What the extension calls in each iteration of a solve whose solution is x."""
    if callback is None:
        return None
    told = callback

    def call(iteration: int, residual: float, relative: float, seconds: float, restarts: int) -> object:
        return told(Iteration(iteration, residual, relative, seconds, restarts, x))

    return call


class Solver:
    """A solver that is kept: workspace and preconditioner serve the next solve with the same matrix.

    Parameters
    ----------
    method : str, optional
        A name of `methods`, or "auto": cg for a symmetric matrix with a positive diagonal, minres for another symmetric
        one, gmres for fields with a constraint and cells with a pressure that preconditioner fields or auto can solve,
        bicgstab for any other.
    preconditioner : optional
        "auto": jacobi at first, in a long solve and in repeated ones another one that pays, and none if the diagonal
        has a zero. None or "none": none. A name of `preconditioners`; a dict such as ``{"type": "ic", "fill": 2}``; a
        `Preconditioner`; a matrix that approximates the inverse; a `LinearOperator`; an object with ``solve()``, such
        as the result of ``spilu()``; a hierarchy of pyamg.
    **options
        The keys of a problem file: see `solve`.

    Examples
    --------
    >>> import numpy as np, protean
    >>> A = protean.matrix(np.diag([1.0, 2.0, 3.0]))
    >>> solver = protean.Solver(method="cg", preconditioner="jacobi")
    >>> for scale in (1.0, 2.0):
    ...     A.update(scale * np.diag([1.0, 2.0, 3.0]))
    ...     report = solver.solve(A, np.ones(3))
    ...     print(report.iterations, report.x * scale * [1, 2, 3])
    1 [1. 1. 1.]
    1 [1. 1. 1.]
    """

    def __init__(self, method: str = "auto", preconditioner: Any = "auto", **options: Any) -> None:
        self._keywords: dict[str, Any] = {"method": method, **options}
        self._other: Any = None
        if preconditioner is None:
            preconditioner = "none"
        if isinstance(preconditioner, (str, dict)):
            self._keywords["preconditioner"] = preconditioner
        else:
            self._other = preconditioner
        self._cores: dict[tuple[bool, int], _core.SolverF64 | _core.SolverF32] = {}
        checked = _core.SolverF64(self._keywords, None)  # so that wrong options are refused here
        if self._other is None:
            self._cores[False, -1] = checked

    def _one(self, single: bool, of: Any) -> _core.SolverF64 | _core.SolverF32:
        at = single, of.ordinal
        core = self._cores.get(at)
        if core is None:
            source: Any = source_of(self._other, of, single)
            if single:
                core = _core.SolverF32({"relative_tolerance": _FLOAT_TOLERANCE, **self._keywords}, source)
            else:
                core = _core.SolverF64(self._keywords, source)
            self._cores[at] = core
        return core

    def __reduce__(self) -> tuple[Any, ...]:
        return _solver, (self._keywords, self._other)

    def solve(
        self,
        A: Any,
        b: Any,
        x0: Any = None,
        *,
        callback: Callable[[Iteration], object] | None = None,
        threads: int | None = None,
    ) -> Report:
        """Solve A x = b. The parameters are the parameters of `protean.solve`."""
        there = type(b) is not np.ndarray and _device.on_device(b)
        values = _device.seen(b, "b") if there else finite(real_array(b, "b"), "b")
        type_of_b = dtype_of(values)
        if isinstance(A, Matrix):
            given = [key for key in ("format", "parameters", "kernel", "order") if key in self._keywords]
            if given or threads is not None:
                raise BadArgument(
                    f"{', '.join(given) or 'threads'} belongs to the Matrix that was given; leave it out, and make the "
                    "matrix so, or use Matrix.convert()"
                )
            core: Any = A._core
            single = A.dtype == F32
            is_float32(type_of_b)
        else:
            single = is_float32(dtype_of(A)) and (there or is_float32(type_of_b))
            is_float32(type_of_b)
            core = core_matrix(A, single, threads_of(threads))
            core.want(
                self._keywords.get("format", "auto"),
                self._keywords.get("parameters"),
                self._keywords.get("kernel", ""),
                self._keywords.get("order", "none"),
            )
        dtype = F32 if single else F64
        rows = core.shape[0]
        if values.ndim not in (1, 2) or values.shape[0] != rows:
            raise ShapeMismatch(
                f"the matrix has {rows} rows and b has shape {tuple(values.shape)}; b must have {rows} rows"
            )
        if there and core.ordinal < 0:
            _device.require_host(b, "b")
        solver = self._one(single, core)
        if core.ordinal >= 0:
            report = self._on_device(solver, core, values, there, dtype, x0, callback)
            report.x = _device.given_back(report.x, b)
            return report
        if values.ndim == 2 and values.shape[1] != 1:
            return self._columns(solver, core, columns_of(values, dtype), x0, callback)
        right = np.ascontiguousarray(values, dtype=dtype).reshape(-1)
        x = np.zeros(rows, dtype=dtype)
        if x0 is not None:
            x[:] = guess_of(x0, values.shape).reshape(-1)
        call = _with_iterate(callback, x)
        with iterate_kept(x):
            result = solver.solve(core, right, x, call)
        return Report(x.reshape(values.shape), result)

    def _on_device(
        self,
        solver: Any,
        core: Any,
        b: Any,
        there: bool,
        dtype: Any,
        x0: Any,
        callback: Callable[[Iteration], object] | None,
    ) -> Report:
        """A solve on a GPU. b of the host is copied there, and x back."""
        shape = tuple(b.shape)
        several = len(shape) == 2 and shape[1] != 1
        if several:
            require_no_callback(callback)
        given, x, into = _device.vectors(b, there, core.ordinal, shape, dtype, x0)
        call = _with_iterate(callback, x)
        with iterate_kept(x):
            if several:
                result = solver.solve_columns_on_device(core, given, into)
            else:
                result = solver.solve_on_device(core, given, into, call)
        return Report(x if there else _device.to_numpy(into), result)

    def _columns(self, solver: Any, core: Any, right: Array, x0: Any, callback: Any) -> Report:
        require_no_callback(callback)
        by_columns = right.strides[0] == right.itemsize
        x = np.zeros(right.shape, dtype=right.dtype, order="F" if by_columns else "C")
        if x0 is not None:
            x[:] = guess_of(x0, right.shape)
        with iterate_kept(x):
            result = solver.solve_columns(core, right, x)
        return Report(x, result)


def _solver(keywords: dict[str, Any], other: Any) -> Solver:
    given = dict(keywords)
    if other is not None:
        given["preconditioner"] = other
    return Solver(**given)


def solve(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    method: str = "auto",
    preconditioner: Any = "auto",
    callback: Callable[[Iteration], object] | None = None,
    threads: int | None = None,
    **options: Any,
) -> Report:
    """Solve A x = b.

    Parameters
    ----------
    A : Matrix, sparse array or matrix, array of shape (n, n), or LinearOperator
        The matrix.
    b : array of shape (n,), (n, 1) or (n, k)
        The right-hand side, or k of them as columns. Where A and b are float32, the
        solve computes in float32, else in float64. A `Matrix` decides alone. Where A lies on a GPU, x is what b is: an
        array of CuPy, PyTorch or JAX on that GPU, of the type of A, or one of NumPy, which is copied there, and x back.
    x0 : array of the shape of b, optional
        The initial guess, 0 without it. It is not changed.
    method, preconditioner : optional
        See `Solver`.
    callback : callable, optional
        Called with an `Iteration` between two iterations. The solve ends where it returns False. Its exceptions come
        through.
    threads : int, optional
        The number of threads, where A is no `Matrix`.
    **options
        The keys of a problem file: ``relative_tolerance`` (1e-8; in float32 1e-4), ``absolute_tolerance``,
        ``max_iterations`` (10000),
        ``restart`` and all others of `options` for the method; ``format`` ("auto"), ``parameters``, ``kernel`` and
        ``order`` of the matrix where A is no `Matrix`; ``policy`` ("by-format", "auto", "none", or a dict of its
        options); ``schedule``, a list such as ``[{"at_iteration": 20, "format": "sell-packed"}]``;
        ``expected_iterations``; ``selector``, what chooses the format "auto" ("model"); ``precision``, whether the
        policy may store the values in float ("double", "auto"); ``devices``, the GPUs that share the rows of a matrix
        in host memory ("all", a number, or a list of their numbers), and ``partition``, which rows a device has
        ("rows", "graph").

    Returns
    -------
    Report
        With the solution ``x``. Numerical trouble is its ``reason``, not an exception. Input that cannot be right is an
        exception, as an entry of b or x0 that is not finite.

    Raises
    ------
    BadArgument, ShapeMismatch, BadMatrix, FormatRefused, NotAvailable, OutOfMemory
        See `protean.errors`.
    KeyboardInterrupt
        After Ctrl-C, between two iterations. Its attribute ``x`` is the iterate.

    Examples
    --------
    >>> import numpy as np, protean
    >>> A = 2 * np.eye(50) - np.eye(50, k=1) - np.eye(50, k=-1)
    >>> report = protean.solve(A, np.ones(50), preconditioner="ic0")
    >>> report.converged, report.iterations
    (True, 1)
    >>> bool(np.allclose(A @ report.x, 1))
    True
    """
    return Solver(method, preconditioner, **options).solve(A, b, x0, callback=callback, threads=threads)

"""Solvers with the signatures and the rules of `scipy.sparse.linalg`.

``x, info = cg(A, b)`` stops as SciPy does: ``norm(b - A @ x) <= max(rtol * norm(b), atol)``, and `b - A x` is computed
before a solve is called converged. Computations are in float32 where A and b are, else in float64. Complex numbers are
refused. Beside what SciPy takes, A may be a `protean.Matrix`; M may be the name of a preconditioner of this library,
such as ``"ic0"``, a `protean.Preconditioner`, the factors of ``spilu()``, or a hierarchy of pyamg; b may have several
columns.

Ctrl-C ends a setup, or a solve between two iterations, with KeyboardInterrupt, whose attribute ``x`` is the iterate.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from . import _convert, _core, _device
from ._convert import (
    Array,
    F32,
    F64,
    columns_of,
    core_matrix,
    csr_arrays,
    dtype_of,
    finite,
    guess_of,
    is_float32,
    real_array,
    shape_of,
    vector_function,
    whole_number,
)
from ._matrix import Matrix
from ._preconditioner import source_of
from .errors import BadArgument, ShapeMismatch

__all__ = ["cg", "bicgstab", "gmres", "minres", "idrs", "fgmres", "bicgstab2", "fcg"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_ITERATE, _NORM, _CYCLE = 1, 2, 3
# Reasons of an end that are limits; others are breakdowns of the method.
_LIMITS = {-1, -2, -3, -8, -9}
_MAX_ITERATIONS = -1


def _norm(b: Array) -> float:
    if b.dtype == F32:
        b = b.astype(F64)
    squared = float(b.dot(b))
    if 1e-280 < squared < 1e280:
        return math.sqrt(squared)
    # Squares may be below or above the range of the numbers.
    largest = float(np.abs(b).max(initial=0.0))
    return largest * float(np.linalg.norm(b / largest)) if 0 < largest < math.inf else largest


def _tolerance(name: str, b_norm: float, atol: Any, rtol: float) -> float:
    if atol is None or isinstance(atol, str) or atol < 0:
        raise BadArgument(
            f"'protean.linalg.{name}' called with invalid `atol`={atol}; if set, `atol` must be a real, non-negative "
            "number."
        )
    return max(float(atol), float(rtol) * b_norm)


def _run(
    name: str,
    method: str,
    A: Any,
    b: Any,
    x0: Any,
    rtol: float,
    atol: Any,
    maxiter: int | None,
    M: Any,
    callback: Callable[..., object] | None,
    *,
    calls: int = _ITERATE,
    per_row: int = 10,
    number: int = 0,
    cycle: int = 1,
    breakdown: int = 0,
) -> tuple[Array, int]:
    """Solve by SciPy's rules.

    number: restart, s or directions. cycle: iterations for each that maxiter counts. breakdown: info where the method
    broke down; 0: the number of iterations, as at other ends.
    """
    there = type(b) is not np.ndarray and _device.on_device(b)
    right = _device.seen(b, "b") if there else real_array(b, "b")
    single = False
    if isinstance(A, Matrix):
        core: Any = A._core
        single = A.dtype == F32
        is_float32(dtype_of(right))
    else:
        if there:
            single = is_float32(dtype_of(A))
        elif right.dtype is not F64 or getattr(A, "dtype", None) is not F64:
            single = is_float32(dtype_of(A)) & is_float32(right.dtype)
        core = core_matrix(A, single, _convert._threads)
    rows, cols = core.shape
    if rows != cols:
        raise ShapeMismatch(f"expected square matrix, but got shape=({rows}, {cols})")
    if right.shape != (rows,) and (right.ndim != 2 or right.shape[0] != rows):
        raise ShapeMismatch(f"shapes of A {core.shape} and b {tuple(right.shape)} are incompatible")
    if there and core.ordinal < 0:
        _device.require_host(b, "b")
    dtype = F32 if single else F64
    if M is None and hasattr(A, "psolve"):
        source: Any = (_core.SourceF32 if single else _core.SourceF64).of_function(
            vector_function(A.psolve, dtype), rows
        )
    else:
        source = source_of(M, core, single) if M is not None else None
    iterations = rows * per_row if maxiter is None else whole_number(maxiter, "maxiter")
    if core.ordinal >= 0:
        x, ends = _on_device(
            name, method, core, right, there, x0, rtol, atol, iterations * cycle, source, callback, calls, number, dtype
        )
        x = _device.given_back(x, b)
        infos = [_info(reason, done, iterations, breakdown) for reason, done in ends]
        return x, next((info for info in infos if info != 0), 0)
    if right.ndim == 2 and right.shape[1] != 1:
        if callback is not None:
            raise BadArgument("a callback is for one right-hand side; solve the columns one after another")
        return _columns(
            name, method, core, right, x0, rtol, atol, iterations, source, number, cycle, breakdown, dtype
        )
    vector = np.ascontiguousarray(right, dtype=dtype).reshape(-1)
    norm = _norm(vector)
    if not math.isfinite(norm):
        finite(vector, "b")
    absolute = _tolerance(name, norm, atol, rtol)
    x = np.zeros(rows, dtype=dtype)
    if x0 is not None:
        if isinstance(x0, str):
            if x0 != "Mb":
                raise BadArgument(f"x0 is '{x0}'; it must be a vector, None, or 'Mb' for M b")
            x[:] = vector if M is None else _apply(M, core, vector, dtype)
        else:
            x[:] = guess_of(x0, (rows,))
    if norm == 0:
        return np.zeros(rows, dtype=dtype), 0
    try:
        reason, done = _core.solve_scipy(
            core, method, vector, x, absolute, iterations * cycle, number, source, callback, calls
        )
    except KeyboardInterrupt as interrupt:
        interrupt.x = x  # type: ignore[attr-defined]
        raise
    return x, _info(reason, done, iterations, breakdown)


def _on_device(
    name: str,
    method: str,
    core: Any,
    b: Any,
    there: bool,
    x0: Any,
    rtol: float,
    atol: Any,
    iterations: int,
    source: Any,
    callback: Any,
    calls: int,
    number: int,
    dtype: Any,
) -> tuple[Any, list[tuple[int, int]]]:
    """x and how the solves ended, with a matrix on a GPU. b of the host is copied there, and x back."""
    absolute = _tolerance(name, 0.0, atol, rtol)
    if not 0 <= rtol < 1:
        raise BadArgument(f"rtol is {rtol}; on a GPU it must be 0 or more and below 1")
    shape = tuple(b.shape)
    several = len(shape) == 2 and shape[1] != 1
    if several and callback is not None:
        raise BadArgument("a callback is for one right-hand side; solve the columns one after another")
    if several and method not in _core.multi_methods:
        raise BadArgument(
            f"{name} takes one right-hand side at a time on a GPU; several ones have {', '.join(_core.multi_methods)}"
        )
    given, x, into = _device.vectors(b, there, core.ordinal, shape if several else shape[:1], dtype, x0)
    rules = float(rtol), absolute, iterations, number, source
    try:
        if several:
            ends = _core.solve_scipy_columns_on_device(core, method, given, into, *rules)
        else:
            ends = [_core.solve_scipy_on_device(core, method, given, into, x, *rules, callback, calls)]
    except KeyboardInterrupt as interrupt:
        interrupt.x = x  # type: ignore[attr-defined]
        raise
    return x if there else _device.to_numpy(into), ends


def _info(reason: int, done: int, iterations: int, breakdown: int) -> int:
    if reason > 0:
        return 0
    if reason == _MAX_ITERATIONS:
        return max(iterations, 1)
    if breakdown and reason not in _LIMITS:
        return breakdown
    return max(done, 1)


def _apply(M: Any, core: Any, vector: Array, dtype: Any) -> Array:
    """M b, for the guess 'Mb'."""
    if isinstance(M, (str, dict)):
        if M == "none":
            return vector
        result = np.empty_like(vector)
        made = _core.PreconditionerF32 if dtype == F32 else _core.PreconditionerF64
        made(core, {"type": M} if isinstance(M, str) else M).apply(vector, result)
        return result
    if hasattr(M, "aspreconditioner") and not hasattr(M, "matvec"):
        M = M.aspreconditioner()
    for product in ("matvec", "dot", "solve"):
        if hasattr(M, product):
            return real_array(getattr(M, product)(vector), "M b").reshape(-1)
    return real_array(M, "M") @ vector


def _columns(
    name: str,
    method: str,
    core: Any,
    right: Array,
    x0: Any,
    rtol: float,
    atol: Any,
    iterations: int,
    source: Any,
    number: int,
    cycle: int,
    breakdown: int,
    dtype: Any,
) -> tuple[Array, int]:
    """Several right-hand sides: in one pass where the method has that, else one after another."""
    B = columns_of(right, dtype)
    by_columns = B.strides[0] == B.itemsize
    X = np.zeros(B.shape, dtype=dtype, order="F" if by_columns else "C")
    finite(B, "b")
    if x0 is not None:
        X[:] = guess_of(x0, B.shape)
    absolutes = [_tolerance(name, _norm(np.ascontiguousarray(B[:, j])), atol, rtol) for j in range(B.shape[1])]
    results: list[tuple[int, int]] = []
    try:
        if method in _core.multi_methods:
            results = _core.solve_scipy_columns(
                core, method, B, X, absolutes, iterations * cycle, number, source
            )
        else:
            for j, absolute in enumerate(absolutes):
                x = np.ascontiguousarray(X[:, j])
                b = np.ascontiguousarray(B[:, j])
                if b.any():
                    results.append(
                        _core.solve_scipy(core, method, b, x, absolute, iterations * cycle, number, source, None, 0)
                    )
                else:
                    x[:] = 0
                X[:, j] = x
    except KeyboardInterrupt as interrupt:
        interrupt.x = X  # type: ignore[attr-defined]
        raise
    infos = [_info(reason, done, iterations, breakdown) for reason, done in results]
    return X, next((info for info in infos if info != 0), 0)


# What docstrings share. `_described` puts it where they have a line such as <A b x0>.
_SHARED = {
    "A": """
A : sparse array or matrix, array of shape (n, n), LinearOperator, or Matrix
    The matrix. CSR arrays of float32 or float64 are not copied. They may lie on a GPU, as those of CuPy do.""",
    "b": """
b : array of shape (n,), (n, 1) or (n, k)
    The right-hand side, or several ones as columns. With a matrix on a GPU it may lie there, too, and so will x;
    one of the host is copied there, and x back.""",
    "x0": """
x0 : array of the shape of b, or 'Mb', optional
    The initial guess, 0 without it. It is not changed.""",
    "rtol": """
rtol, atol : float, optional
    The solve has converged where ``norm(b - A @ x) <= max(rtol * norm(b), atol)``.""",
    "maxiter": """
maxiter : int, optional
    The largest number of iterations, 10 n without it.""",
    "M": """
M : optional
    The preconditioner: what approximates the inverse of A, as matrix or LinearOperator; or the name of a
    preconditioner of this library, such as "ic0"; or an object with ``solve()`` or ``aspreconditioner()``.""",
    "callback": """
callback : callable, optional
    Called as ``callback(x)`` after each iteration, with the array that will be the result. Exceptions come through.""",
    "restart": """
restart : int, optional
    Iterations between restarts, ``min(20, n)`` without it.
maxiter : int, optional
    The largest number of cycles, 10 n without it; of iterations where `callback_type` is "legacy" and there is a
    callback.""",
    "callback_type": """
callback : callable, optional
    Called with one argument, which `callback_type` says.
callback_type : {'x', 'pr_norm', 'legacy'}, optional
    "x": the iterate, after each cycle. "pr_norm": the norm of the residual divided by that of b, after each
    iteration. "legacy", the default: the same, and maxiter counts iterations.""",
    "x": """
x : array of the shape (n,) or (n, k)
    The solution, or the last iterate.""",
    "info": """
info : int
    0: converged. Above 0: not converged, the number of iterations, at least 1. Of several columns the first that is
    not 0.""",
    "info-10": """
info : int
    0: converged. Above 0: not converged, the number of iterations, at least 1. -10: the method broke down.""",
    "errors": """
BadArgument, ShapeMismatch, BadMatrix, OutOfMemory
    See `protean.errors`; the first three are a ValueError. An entry of b or x0 that is not finite is named,
    but on a GPU, where info is above 0.
TypeError
    Entries that are no real numbers: complex ones, truth values, objects, strings.
KeyboardInterrupt
    After Ctrl-C. Its attribute ``x`` is the iterate.""",
    "right": """
M is applied on the right, so that the residual is that of A x = b; SciPy applies it on the left, so that its
callback gets the norm of M r.""",
}


def _described(function: _Function) -> _Function:
    lines: list[str] = []
    for line in (function.__doc__ or "").splitlines():
        text = line.strip()
        if text.startswith("<") and text.endswith(">"):
            indent = " " * line.index("<")
            shared = "".join(_SHARED[name] for name in text[1:-1].split())
            lines += [indent + one for one in shared.splitlines()[1:]]
        else:
            lines.append(line)
    if lines:  # there are none under python -OO
        function.__doc__ = "\n".join(lines)
    return function


@_described
def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Array], object] | None = None,
) -> tuple[Array, int]:
    """Solve A x = b by conjugate gradients, for a symmetric positive definite A.

    Parameters
    ----------
    <A b x0 rtol maxiter M callback>

    Returns
    -------
    <x info>

    Raises
    ------
    <errors>

    Notes
    -----
    SciPy's cg goes on where A is not positive definite; this one ends there. M must be symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> from protean.linalg import cg
    >>> A = np.array([[4.0, 1.0], [1.0, 3.0]])
    >>> x, info = cg(A, np.array([1.0, 2.0]))
    >>> info, np.round(x, 4).tolist()
    (0, [0.0909, 0.6364])
    """
    return _run("cg", "cg", A, b, x0, rtol, atol, maxiter, M, callback)


@_described
def fcg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Array], object] | None = None,
    directions: int = 5,
) -> tuple[Array, int]:
    """Solve A x = b by flexible conjugate gradients: M may be another one in each iteration.

    Parameters
    ----------
    <A b x0 rtol maxiter M callback>
    directions : int, optional
        How many earlier directions a new one is made conjugate to, 1 to 100.

    Returns
    -------
    <x info>

    Raises
    ------
    <errors>

    Examples
    --------
    >>> import numpy as np
    >>> from protean.linalg import fcg
    >>> fcg(np.diag([1.0, 2.0]), np.array([1.0, 2.0]))[1]
    0
    """
    return _run("fcg", "fcg", A, b, x0, rtol, atol, maxiter, M, callback, number=directions)


@_described
def minres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    shift: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Array], object] | None = None,
    show: bool = False,
    check: bool = False,
) -> tuple[Array, int]:
    """Solve (A - shift I) x = b by minimal residuals, for a symmetric A, which need not be definite.

    Parameters
    ----------
    <A b x0>
    rtol : float, optional
        The solve has converged where ``norm(b - (A - shift I) @ x) <= rtol * norm(b)``.
    shift : float, optional
        Taken from the diagonal of A. It is for matrices of the host.
    maxiter : int, optional
        The largest number of iterations, 5 n without it.
    <M>
        It must be symmetric and positive definite.
    callback : callable, optional
        Called as ``callback(x)`` after each iteration, with a copy.
    show : bool, optional
        Print how the solve ended.
    check : bool, optional
        Raise ValueError where A or M is seen not to be symmetric, by two products each. It is for matrices of the host.

    Returns
    -------
    <x info>

    Raises
    ------
    <errors>

    Notes
    -----
    SciPy's minres compares with estimates of ``norm(A) * norm(x)``; this one with ``norm(b)``, and it computes the
    residual.

    Examples
    --------
    >>> import numpy as np
    >>> from protean.linalg import minres
    >>> x, info = minres(np.diag([1.0, -2.0]), np.array([1.0, 2.0]))
    >>> info, np.round(x, 6).tolist()
    (0, [1.0, -1.0])
    """
    if (check or shift != 0) and (
        (isinstance(A, Matrix) and A.device is not None) or _device.csr_on_device(A) is not None
    ):
        raise BadArgument("check and shift are for matrices of the host; give A - shift I itself")
    if check:
        _check_symmetric(A, M, b)
    call = None
    if callback is not None:
        told = callback

        def call(x: Any) -> None:
            # PyTorch copies by another name; an array of ours on a GPU cannot be changed by the caller.
            told(x.copy() if hasattr(x, "copy") else x.clone() if hasattr(x, "clone") else x)

    if shift != 0:
        A = _shifted(A, float(shift))
    x, info = _run("minres", "minres", A, b, x0, rtol, 0.0, maxiter, M, call, per_row=5)
    if show:
        end = "converged" if info == 0 else f"not converged after {info} iterations"
        print(f"minres: {end}")
    return x, info


class _Shifted:
    """A - shift I, as an operator."""

    def __init__(self, A: Any, shift: float) -> None:
        self.shape = shape_of(A)
        self.dtype = dtype_of(A)
        self._product = A.matvec if hasattr(A, "matvec") else A.__matmul__
        self._shift = shift

    def matvec(self, x: Array) -> Array:
        return np.asarray(self._product(x)).reshape(-1) - self._shift * x


def _shifted(A: Any, shift: float) -> Any:
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


def _check_symmetric(A: Any, M: Any, b: Any) -> None:
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


@_described
def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Array], object] | None = None,
) -> tuple[Array, int]:
    """Solve A x = b by stabilised biconjugate gradients, for any A.

    Parameters
    ----------
    <A b x0 rtol maxiter M callback>

    Returns
    -------
    <x info-10>

    Raises
    ------
    <errors>

    Examples
    --------
    >>> import numpy as np
    >>> from protean.linalg import bicgstab
    >>> bicgstab(np.array([[2.0, 1.0], [0.0, 1.0]]), np.array([3.0, 1.0]))[1]
    0
    """
    return _run("bicgstab", "bicgstab", A, b, x0, rtol, atol, maxiter, M, callback, breakdown=-10)


@_described
def bicgstab2(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Array], object] | None = None,
) -> tuple[Array, int]:
    """Solve A x = b by BiCGStab(2), which copes with eigenvalues near the imaginary axis; four products an iteration.

    Parameters
    ----------
    <A b x0 rtol maxiter M callback>

    Returns
    -------
    <x info-10>

    Raises
    ------
    <errors>

    Examples
    --------
    >>> import numpy as np
    >>> from protean.linalg import bicgstab2
    >>> bicgstab2(np.array([[0.0, 1.0], [-1.0, 0.1]]), np.array([1.0, 1.0]))[1]
    0
    """
    return _run("bicgstab2", "bicgstab2", A, b, x0, rtol, atol, maxiter, M, callback, breakdown=-10)


@_described
def idrs(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Array], object] | None = None,
    s: int = 4,
) -> tuple[Array, int]:
    """Solve A x = b by IDR(s), for any A; one product an iteration.

    Parameters
    ----------
    <A b x0 rtol maxiter M callback>
    s : int, optional
        The dimension of the shadow space, 1 to 16.

    Returns
    -------
    <x info-10>

    Raises
    ------
    <errors>

    Examples
    --------
    >>> import numpy as np
    >>> from protean.linalg import idrs
    >>> idrs(np.array([[2.0, 1.0], [0.0, 1.0]]), np.array([3.0, 1.0]))[1]
    0
    """
    return _run("idrs", "idr", A, b, x0, rtol, atol, maxiter, M, callback, number=s, breakdown=-10)


def _restarted(
    name: str,
    A: Any,
    b: Any,
    x0: Any,
    rtol: float,
    atol: float,
    restart: int | None,
    maxiter: int | None,
    M: Any,
    callback: Callable[[Any], object] | None,
    callback_type: str | None,
) -> tuple[Array, int]:
    if callback is not None and callback_type is None:
        warnings.warn(
            f"protean.linalg.{name} called without specifying `callback_type`. The default value will be changed in a "
            "future release. For compatibility, specify a value for `callback_type` explicitly, e.g., "
            f"``{name}(..., callback_type='pr_norm')``, or to retain the old behavior "
            f"``{name}(..., callback_type='legacy')``",
            category=DeprecationWarning,
            stacklevel=3,
        )
    if callback_type is None:
        callback_type = "legacy"
    if callback_type not in ("x", "pr_norm", "legacy"):
        raise BadArgument(f"Unknown callback_type: {callback_type!r}")
    rows = shape_of(A)[0]
    size = max(min(20 if restart is None else whole_number(restart, "restart"), rows), 1)
    legacy = callback is not None and callback_type == "legacy"
    call = callback
    if callback is not None and callback_type != "x":
        told = callback

        def call(norm: float) -> None:
            told(np.float64(norm))  # SciPy's is of NumPy, too

    return _run(
        name,
        name,
        A,
        b,
        x0,
        rtol,
        atol,
        maxiter,
        M,
        call,
        calls=_CYCLE if callback_type == "x" else _NORM,
        number=size,
        cycle=1 if legacy else size,
    )


@_described
def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    restart: int | None = None,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Any], object] | None = None,
    callback_type: str | None = None,
) -> tuple[Array, int]:
    """Solve A x = b by generalised minimal residuals with restarts, for any A.

    Parameters
    ----------
    <A b x0 rtol restart M callback_type>

    Returns
    -------
    <x info>
        It is maxiter where that ended the solve.

    Raises
    ------
    <errors>

    Notes
    -----
    <right>

    Examples
    --------
    >>> import numpy as np
    >>> from protean.linalg import gmres
    >>> A = np.array([[3.0, 2.0, 0.0], [1.0, -1.0, 0.0], [0.0, 5.0, 1.0]])
    >>> x, info = gmres(A, np.array([2.0, 4.0, -1.0]))
    >>> info, np.round(x, 6).tolist()
    (0, [2.0, -2.0, 9.0])
    """
    return _restarted("gmres", A, b, x0, rtol, atol, restart, maxiter, M, callback, callback_type)


@_described
def fgmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    restart: int | None = None,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Any], object] | None = None,
    callback_type: str | None = None,
) -> tuple[Array, int]:
    """Solve A x = b by flexible GMRES: M may be another one in each iteration, such as a solve of its own.

    Parameters
    ----------
    <A b x0 rtol restart M callback_type>

    Returns
    -------
    <x info>
        It is maxiter where that ended the solve.

    Raises
    ------
    <errors>

    Notes
    -----
    <right>

    Examples
    --------
    >>> import numpy as np
    >>> from protean.linalg import fgmres
    >>> fgmres(np.array([[2.0, 1.0], [0.0, 1.0]]), np.array([3.0, 1.0]))[1]
    0
    """
    return _restarted("fgmres", A, b, x0, rtol, atol, restart, maxiter, M, callback, callback_type)

"""A solve by the rules of SciPy: what it takes, when it stops, what it returns."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _convert, _core, _device
from ._convert import columns_of, core_matrix, dtype_of, iterate_kept, require_no_callback, vector_function
from ._matrix import Matrix
from ._preconditioner import source_of
from ._vectors import Array, F32, F64, finite, guess_of, is_float32, real_array, whole_number
from .errors import BadArgument, ShapeMismatch

ITERATE, NORM, CYCLE = 1, 2, 3
"""When a solve calls its callback, and with what."""

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


def run(
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
    calls: int = ITERATE,
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
        require_no_callback(callback)
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
    with iterate_kept(x):
        reason, done = _core.solve_scipy(
            core, method, vector, x, absolute, iterations * cycle, number, source, callback, calls
        )
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
    if several:
        require_no_callback(callback)
    given, x, into = _device.vectors(b, there, core.ordinal, shape if several else shape[:1], dtype, x0)
    rules = float(rtol), absolute, iterations, number, source
    with iterate_kept(x):
        if several:
            ends = _core.solve_scipy_columns_on_device(core, method, given, into, *rules)
        else:
            ends = [_core.solve_scipy_on_device(core, method, given, into, x, *rules, callback, calls)]
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
    """Several right-hand sides, in one pass."""
    B = columns_of(right, dtype)
    by_columns = B.strides[0] == B.itemsize
    X = np.zeros(B.shape, dtype=dtype, order="F" if by_columns else "C")
    finite(B, "b")
    if x0 is not None:
        X[:] = guess_of(x0, B.shape)
    absolutes = [_tolerance(name, _norm(np.ascontiguousarray(B[:, j])), atol, rtol) for j in range(B.shape[1])]
    with iterate_kept(X):
        results = _core.solve_scipy_columns(core, method, B, X, absolutes, iterations * cycle, number, source)
    infos = [_info(reason, done, iterations, breakdown) for reason, done in results]
    return X, next((info for info in infos if info != 0), 0)

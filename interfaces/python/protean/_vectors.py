"""Numbers and vectors of the caller, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import BadArgument, ShapeMismatch

Array = NDArray[Any]
F32, F64, I32 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int32)


def is_float32(dtype: Any) -> bool:
    """Whether values are computed in float32; other real types are computed in float64."""
    if dtype == F64:
        return False
    kind = dtype.kind
    if kind == "c":
        raise TypeError(
            "complex numbers are not supported: protean computes with float32 and float64. A complex system of n rows "
            "is a real one of 2 n rows, [[Re A, -Im A], [Im A, Re A]]"
        )
    if kind not in "fiu":
        raise TypeError(f"entries of type {dtype} are no real numbers; give numbers of float64 or float32")
    return bool(dtype == F32)


def real_array(x: Any, what: str) -> Array:
    """What the caller gave as an array of real numbers. What a conversion would drop or guess is refused."""
    if type(x) is np.ndarray and x.dtype is F64:
        return x
    if isinstance(x, np.ma.MaskedArray):
        raise BadArgument(f"{what} is a masked array, and masks are not heeded; give {what}.filled(value)")
    try:
        array = np.asarray(x)
    except ValueError as error:  # rows of several lengths
        raise BadArgument(f"{what} is not an array of numbers: {error}") from None
    try:
        is_float32(array.dtype)
    except TypeError as error:
        raise TypeError(f"{what}: {error}") from None
    return array


def finite(x: Array, what: str) -> Array:
    """Return x; BadArgument names its first entry that is not finite."""
    bad = np.flatnonzero(~np.isfinite(x))
    if bad.size:
        at = np.unravel_index(bad[0], x.shape)
        place = int(at[0]) if len(at) == 1 else tuple(int(i) for i in at)
        more = f", and {bad.size - 1} more" if bad.size > 1 else ""
        raise BadArgument(f"{what}[{place}] is {x[at]}{more}; the entries of {what} must be finite")
    return x


def guess_of(x0: Any, shape: tuple[int, ...]) -> Array:
    """The initial guess in this shape. (n,) and (n, 1) are the same."""
    guess = real_array(x0, "x0")
    flat = shape[:1] if shape[1:] == (1,) else shape
    if guess.shape != shape and (guess.shape[:1] if guess.shape[1:] == (1,) else guess.shape) != flat:
        raise ShapeMismatch(f"x0 has shape {guess.shape}; it must have the shape of b, {shape}")
    return finite(guess, "x0").reshape(shape)


def whole_number(value: Any, what: str, least: int = 0) -> int:
    """A whole number, which may be a float such as 1e4."""
    if isinstance(value, (bool, np.bool_, str)) or value != value or value != int(value):
        raise BadArgument(f"{what} is {value!r}; it must be a whole number")
    if value < least:
        raise BadArgument(f"{what} is {value}; it must be {least} or more")
    return int(value)

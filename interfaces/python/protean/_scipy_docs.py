"""What the docstrings of `protean.linalg` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

# The shared parts of docstrings. `described` puts them in the place of a line such as <A b x0>.
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
M is applied on the right, so that the residual is b - A x; SciPy applies it on the left, so that its
callback gets the norm of M r.""",
}


def described(function: _Function) -> _Function:
    """Put what docstrings share in the place of the lines that name it."""
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

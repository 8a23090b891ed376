"""Solvers with the signatures and the rules of `scipy.sparse.linalg`.

``x, info = cg(A, b)`` stops as SciPy does: ``norm(b - A @ x) <= max(rtol * norm(b), atol)``, and `b - A x` is computed
before a solve is called converged. Computations are in float32 where A and b are, else in float64. Complex numbers are
refused. Besides what SciPy takes, A may be a `protean.Matrix`; M may be the name of a preconditioner of this library,
such as ``"ic0"``, a `protean.Preconditioner`, the factors of ``spilu()``, or a hierarchy of pyamg; b may have several
columns.

Ctrl-C ends a setup, or a solve between two iterations, with KeyboardInterrupt, whose attribute ``x`` is the iterate.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _device
from ._convert import shape_of
from ._matrix import Matrix
from ._scipy_docs import described
from ._scipy_rules import CYCLE, NORM, run
from ._symmetric import check_symmetric, shifted
from ._vectors import Array, whole_number
from .errors import BadArgument

__all__ = ["cg", "bicgstab", "gmres", "minres", "idrs", "fgmres", "bicgstab2", "fcg"]


@described
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
    return run("cg", "cg", A, b, x0, rtol, atol, maxiter, M, callback)


@described
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
    return run("fcg", "fcg", A, b, x0, rtol, atol, maxiter, M, callback, number=directions)


@described
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
        check_symmetric(A, M, b)
    call = None
    if callback is not None:
        told = callback

        def call(x: Any) -> None:
            # PyTorch has another name for copies; the caller cannot change our own arrays on a GPU.
            told(x.copy() if hasattr(x, "copy") else x.clone() if hasattr(x, "clone") else x)

    if shift != 0:
        A = shifted(A, float(shift))
    x, info = run("minres", "minres", A, b, x0, rtol, 0.0, maxiter, M, call, per_row=5)
    if show:
        end = "converged" if info == 0 else f"not converged after {info} iterations"
        print(f"minres: {end}")
    return x, info


@described
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
    return run("bicgstab", "bicgstab", A, b, x0, rtol, atol, maxiter, M, callback, breakdown=-10)


@described
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
    return run("bicgstab2", "bicgstab2", A, b, x0, rtol, atol, maxiter, M, callback, breakdown=-10)


@described
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
    return run("idrs", "idr", A, b, x0, rtol, atol, maxiter, M, callback, number=s, breakdown=-10)


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

    return run(
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
        calls=CYCLE if callback_type == "x" else NORM,
        number=size,
        cycle=1 if legacy else size,
    )


@described
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


@described
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

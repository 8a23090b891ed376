"""One solve with all that the library can do, and its report."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import _core, _device
from ._convert import (
    Array,
    F32,
    F64,
    columns_of,
    core_matrix,
    dtype_of,
    finite,
    guess_of,
    is_float32,
    real_array,
    threads_of,
)
from ._matrix import Matrix
from ._preconditioner import source_of
from .errors import BadArgument, ShapeMismatch


# Of float32, about the root of its unit of rounding, as 1e-8 is of float64. b - A x cannot be smaller than that unit
# times |A| |x| / |b|, so that a smooth b on a grid of 60 x 60 ends above 1e-5.
_FLOAT_TOLERANCE = 1e-4


class Iteration(NamedTuple):
    """What a callback of `solve` is told of an iteration."""

    iteration: int
    """0 for the initial guess."""
    residual: float
    """The norm of the residual of the recurrence (option ``residual_norm``)."""
    relative_residual: float
    """The same, divided by the norm of b, or what option ``baseline`` names."""
    seconds: float
    """Since the solve began."""
    restarts: int
    """How often the method has begun again from b - A x."""
    x: Array
    """The array of the solution, which goes on changing. gmres and fgmres change it at the end of a cycle only."""


class Column:
    """The result for one of several right-hand sides."""

    converged: bool
    reason: str
    iterations: int
    restarts: int
    rhs_norm: float
    initial_residual: float
    recurrence_residual: float
    true_residual: float
    recurrence_relative: float
    true_relative: float
    solve_seconds: float
    detail: str
    advice: str

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)

    def __repr__(self) -> str:
        return f"<{self.reason} after {self.iterations} iterations, residual {self.true_relative:.2e}>"


class Report:
    """What a solve did. Nothing is called converged unless b - A x was computed and is small enough."""

    x: Array
    """The solution, or the last iterate."""
    method: str
    """The method of the solve: the one that was named, or what ``auto`` took."""
    method_reason: str
    """Of method ``auto``: why it took this one. Else empty."""
    converged: bool
    reason: str
    """Why the solve ended: "relative-tolerance", "max-iterations", "breakdown" ..."""
    detail: str
    """The numbers that led to the reason; may be empty."""
    advice: str
    """What to do where it has not converged."""
    iterations: int
    restarts: int
    rhs_norm: float
    initial_residual: float
    recurrence_residual: float
    true_residual: float
    """The norm of b - A x: the 2-norm, or what option ``residual_norm`` names."""
    recurrence_relative: float
    true_relative: float
    """The same divided by that of b, or what option ``baseline`` names."""
    residuals: Array
    """Norms of the residuals of the recurrence, the initial one first."""
    seconds: dict[str, float]
    """Of the stages: check, order, convert, setup, solve."""
    format: str
    """The storage format in which the solve ended."""
    kernel: str
    order: str
    format_reason: str
    choice: dict[str, str]
    """Of format ``auto``: what it wanted, why that was refused (empty if it was not), what it took. Else empty."""
    order_reason: str
    preconditioner: str
    preconditioner_reason: str
    switches: list[dict[str, Any]]
    """The changes of format that took place."""
    failed_switches: list[dict[str, Any]]
    decisions: list[dict[str, Any]]
    """Of the policy."""
    candidates: list[dict[str, Any]]
    """The formats that the policy considered, with predicted and measured seconds."""
    events: list[dict[str, Any]]
    """Of the schedule."""
    columns: list[Column]
    """One for each of several right-hand sides; else empty."""

    def __init__(self, x: Array, values: dict[str, Any]) -> None:
        self.x = x
        self.columns = []
        self.switches, self.failed_switches, self.decisions = [], [], []
        self.candidates, self.events = [], []
        self.residuals = np.empty(0)
        columns = values.pop("columns", None)
        if columns is not None:
            self.columns = [Column(column) for column in columns]
            worst = next((one for one in self.columns if not one.converged), None)
            worst = worst or max(self.columns, key=lambda one: one.iterations, default=None)
            if worst is not None:
                self.__dict__.update(worst.__dict__)
        self.__dict__.update(values)

    def __repr__(self) -> str:
        return f"<protean.Report {self._first_line()}>"

    def _first_line(self) -> str:
        said = "converged" if self.converged else "not converged"
        return (
            f"{self.method}: {said} ({self.reason}) after {self.iterations} iterations, "
            f"residual {self.true_relative:.2e}, format {self.format}"
        )

    def explain(self) -> str:
        """Say what was done and why: the format, each change of it, the decisions of the policy, and advice.

        Returns
        -------
        str
            Lines of text.

        Examples
        --------
        >>> import numpy as np, protean
        >>> report = protean.solve(np.diag([1.0, 2.0, 3.0]), np.ones(3))
        >>> print(report.explain().splitlines()[0])
        cg: converged (relative-tolerance) after 1 iterations, residual ..., format csr
        """
        lines = [self._first_line()]
        if self.detail:
            lines.append(self.detail)
        if self.format_reason:
            lines.append(f"format: {self.format_reason}")
        if self.order_reason:
            lines.append(f"order: {self.order_reason}")
        if self.method_reason:
            lines.append(f"method: {self.method_reason}")
        if self.preconditioner_reason:
            lines.append(f"preconditioner: {self.preconditioner_reason}")
        for one in self.switches:
            orders = "" if one["from_order"] == one["to_order"] else f" in order {one['to_order']}"
            lines.append(
                f"iteration {one['iteration']}: {one['from']} -> {one['to']}{orders}, {one['convert_seconds']:.3g} s"
                f"{' beside the solve' if one['overlapped'] else ''}: {one['reason']}"
            )
        for one in self.failed_switches:
            lines.append(f"iteration {one['iteration']}: no change to {one['to']}: {one['why']}")
        for one in self.decisions:
            what = f"{one['action']} {one['format']}".strip()
            lines.append(f"iteration {one['iteration']}: {what}: {one['reason']}")
        for one in self.events:
            lines.append(f"iteration {one['iteration']}: {one['action']} {one['to']}: {one['reason']}")
        for number, column in enumerate(self.columns):
            lines.append(f"column {number}: {column.reason} after {column.iterations} iterations")
        lines.append(", ".join(f"{stage} {seconds:.3g} s" for stage, seconds in self.seconds.items()))
        if self.advice:
            lines.append(self.advice)
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """Plot the residuals, with a line where the format changed. It needs matplotlib.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to plot; a new figure without it.

        Returns
        -------
        matplotlib.axes.Axes
        """
        if len(self.residuals) == 0:
            raise BadArgument("a solve with several right-hand sides keeps no residuals to plot")
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots()
        ax.semilogy(self.residuals / (self.rhs_norm or 1.0), label=self.method)
        for one in self.switches:
            ax.axvline(one["iteration"], linestyle="--", color="grey")
        ax.set_xlabel("iteration")
        ax.set_ylabel("||r|| / ||b||")
        left_out = _label_switches(ax, self.switches)
        if left_out:
            ax.set_xlabel(f"iteration ({left_out} changes of format have no label)")
        return ax

    def _repr_html_(self) -> str:
        rows = [
            ("method", self.method),
            ("reason", self.reason),
            ("iterations", str(self.iterations)),
            ("residual", f"{self.true_relative:.3e}"),
            ("format", self.format),
            ("order", self.order),
            ("changes of format", ", ".join(f"{s['iteration']}: {s['to']}" for s in self.switches) or "none"),
        ]
        rows += [(f"seconds, {stage}", f"{seconds:.3g}") for stage, seconds in self.seconds.items()]
        if self.advice:
            rows.append(("advice", self.advice))
        cells = "".join(f"<tr><th>{html.escape(a)}</th><td>{html.escape(b)}</td></tr>" for a, b in rows)
        return f"<table>{cells}</table>"


def _switch_label(one: dict[str, Any]) -> str:
    to: str = one["to"]
    return to if one["from_order"] == one["to_order"] else f"{to}, order {one['to_order']}"


def _label_switches(ax: Any, switches: list[dict[str, Any]]) -> int:
    """Write the formats beside their lines, each where no other stands; returns how many found no place."""
    points_of_pixel = 72 / ax.get_figure().dpi
    gap, left_out = 2 / points_of_pixel, 0
    placed: list[Any] = []
    ax.get_xlim(), ax.get_ylim()  # settles the scales, on which places depend
    inside = ax.get_window_extent()
    for one in switches:
        text = ax.annotate(
            _switch_label(one),
            (one["iteration"], 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 0),
            textcoords="offset points",
            rotation=90,
            va="top",
            ha="left",
            annotation_clip=False,
        )
        box = text.get_window_extent()
        place = _free_place(box, inside, placed, gap)
        if place is None:
            text.remove()
            left_out += 1
            continue
        right, down = place
        text.set_position((right * points_of_pixel, -down * points_of_pixel))
        placed.append(box.translated(right, -down))
    return left_out


def _free_place(box: Any, inside: Any, placed: list[Any], gap: float) -> tuple[float, float] | None:
    """By how many pixels a box at the top of the axes moves to the right and down: beside its line, below others
    there, or else in the nearest column that has room."""
    step = box.width + gap
    beside = [gap]
    for k in range(1, int(inside.width / step) + 2):
        beside += [gap + k * step, gap - k * step]
    for right in beside:
        x0, x1 = box.x0 + right, box.x1 + right
        if x0 < inside.x0 or x1 > inside.x1:
            continue
        column = [other for other in placed if other.x0 <= x1 and x0 <= other.x1]
        for down in sorted({gap} | {box.y1 - other.y0 + gap for other in column}):
            y0, y1 = box.y0 - down, box.y1 - down
            if y0 >= inside.y0 and not any(other.y0 <= y1 and y0 <= other.y1 for other in column):
                return right, down
    return None


class Solver:
    """A solver that is kept: workspace and preconditioner serve the next solve with the same matrix.

    Parameters
    ----------
    method : str, optional
        A name of `methods`, or "auto": cg for a symmetric matrix with a positive diagonal, minres for another symmetric
        one, gmres for any other.
    preconditioner : optional
        "auto": jacobi, in repeated solves others that pay, and none if the diagonal has a zero. None or "none": none. A
        name of `preconditioners`; a dict such as ``{"type": "ic", "fill": 2}``; a `Preconditioner`; a matrix that
        approximates the inverse; a `LinearOperator`; an object with ``solve()``, such as that of ``spilu()``; a
        hierarchy of pyamg.
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
        """Solve A x = b. The parameters are those of `protean.solve`."""
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
        call: Callable[..., object] | None = None
        if callback is not None:
            told = callback

            def call(iteration: int, residual: float, relative: float, seconds: float, restarts: int) -> object:
                return told(Iteration(iteration, residual, relative, seconds, restarts, x))

        try:
            result = solver.solve(core, right, x, call)
        except KeyboardInterrupt as interrupt:
            interrupt.x = x  # type: ignore[attr-defined]
            raise
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
        if several and callback is not None:
            raise BadArgument("a callback is for one right-hand side; solve the columns one after another")
        given, x, into = _device.vectors(b, there, core.ordinal, shape, dtype, x0)
        call: Callable[..., object] | None = None
        if callback is not None:
            told = callback

            def call(iteration: int, residual: float, relative: float, seconds: float, restarts: int) -> object:
                return told(Iteration(iteration, residual, relative, seconds, restarts, x))

        try:
            if several:
                result = solver.solve_columns_on_device(core, given, into)
            else:
                result = solver.solve_on_device(core, given, into, call)
        except KeyboardInterrupt as interrupt:
            interrupt.x = x  # type: ignore[attr-defined]
            raise
        return Report(x if there else _device.to_numpy(into), result)

    def _columns(self, solver: Any, core: Any, right: Array, x0: Any, callback: Any) -> Report:
        if callback is not None:
            raise BadArgument("a callback is for one right-hand side; solve the columns one after another")
        by_columns = right.strides[0] == right.itemsize
        x = np.zeros(right.shape, dtype=right.dtype, order="F" if by_columns else "C")
        if x0 is not None:
            x[:] = guess_of(x0, right.shape)
        try:
            result = solver.solve_columns(core, right, x)
        except KeyboardInterrupt as interrupt:
            interrupt.x = x  # type: ignore[attr-defined]
            raise
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
        The right-hand side, or k of them as columns (methods cg, bicgstab and gmres). Where A and b are float32, the
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
        ``order`` of the matrix where A is no `Matrix`; ``policy`` ("auto", or a dict of its options);
        ``schedule``, a list such as ``[{"at_iteration": 20, "format": "sell-packed"}]``; ``expected_iterations``;
        ``selector``, what chooses the format "auto" ("model").

    Returns
    -------
    Report
        With the solution ``x``. Numerical trouble is no exception but its ``reason``. Input that cannot be right is an
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

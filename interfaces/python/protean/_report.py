"""The report of a solve: what it did, said and plotted."""

from __future__ import annotations

import html
from typing import Any, NamedTuple

import numpy as np

from ._vectors import Array
from .errors import BadArgument


class Iteration(NamedTuple):
    """What a callback of `solve` gets in each iteration."""

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
    method_changes: list[dict[str, Any]]
    """What method ``auto`` did in the middle of the solve; ``columns`` right-hand sides went on."""
    converged: bool
    reason: str
    """Why the solve ended: "relative-tolerance", "max-iterations", "breakdown" ..."""
    detail: str
    """The numbers that led to the reason; may be empty."""
    advice: str
    """What to do if it has not converged."""
    iterations: int
    restarts: int
    corrections: int
    """How often b - A x was computed with the given values because products were with values rounded to float."""
    left_rounding: str
    """Why the solve went on with the given values; empty if it did not."""
    rhs_norm: float
    initial_residual: float
    recurrence_residual: float
    true_residual: float
    """The norm of b - A x: the 2-norm, or what option ``residual_norm`` names."""
    recurrence_relative: float
    true_relative: float
    """The same divided by the norm of b, or by what option ``baseline`` names."""
    residuals: Array
    """Norms of the residuals of the recurrence, the initial one first."""
    seconds: dict[str, float]
    """Of the stages: check, order, convert, setup, solve."""
    format: str
    """The storage format in which the solve ended."""
    kernel: str
    order: str
    format_reason: str
    values: str
    """How values were stored at the end: "double", "dictionary", "float (exact)" or "float (rounded)"."""
    values_reason: str
    choice: dict[str, str]
    """Of format ``auto``: what it wanted, why that was refused (empty if it was not), what it took. Else empty."""
    order_reason: str
    preconditioner: str
    preconditioner_reason: str
    storage_reason: str
    """Why option ``storage`` ``auto`` of the preconditioner took double; empty if it did not."""
    preconditioner_changes: list[dict[str, Any]]
    """What preconditioner ``auto`` did in the middle of the solve."""
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
        self.method_changes, self.preconditioner_changes = [], []
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
        if self.values.startswith("float (") or self.left_rounding:
            lines.append(f"values: {self.values}: {self.values_reason}")
        if self.order_reason:
            lines.append(f"order: {self.order_reason}")
        if self.method_reason:
            lines.append(f"method: {self.method_reason}")
        for one in self.method_changes:
            lines.append(f"iteration {one['iteration']}: {one['from']} -> {one['to']} {one['action']}: {one['reason']}")
        if self.preconditioner_reason:
            lines.append(f"preconditioner: {self.preconditioner_reason}")
        for one in self.preconditioner_changes:
            lines.append(f"iteration {one['iteration']}: {one['from']} -> {one['to']} {one['action']}: {one['reason']}")
        for one in self.switches:
            orders = "" if one["from_order"] == one["to_order"] else f" in order {one['to_order']}"
            if one["from_values"] != one["to_values"]:
                orders += f", values {one['from_values']} -> {one['to_values']}"
            lines.append(
                f"iteration {one['iteration']}: {one['from']} -> {one['to']}{orders}, {one['convert_seconds']:.3g} s"
                f"{' next to the solve' if one['overlapped'] else ''}: {one['reason']}"
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
        """Plot the residuals, with lines at changes of format (dashed) and preconditioner (dotted); needs matplotlib.

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
        for one in self.preconditioner_changes:
            if one["action"] != "refused":
                ax.axvline(one["iteration"], linestyle=":", color="grey")
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
    if one["to_values"] == "float (rounded)":
        to += " in float"
    return to if one["from_order"] == one["to_order"] else f"{to}, order {one['to_order']}"


def _label_switches(ax: Any, switches: list[dict[str, Any]]) -> int:
    """Write the formats next to their lines without overlaps; returns how many found no place."""
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
    """By how many pixels a box at the top of the axes moves to the right and down: next to its line, below others
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

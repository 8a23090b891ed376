"""Tables that print, that notebooks show, and that pandas takes."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any, overload


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{key}={one}" for key, one in value.items())
    if isinstance(value, list):
        return ", ".join(str(one) for one in value)
    return str(value)


class Table:
    """Rows with named columns: a sequence of dicts.

    Parameters
    ----------
    rows : list of dict
        All with the same keys.
    title : str, optional
        A line above the table.

    Examples
    --------
    >>> from protean import Table
    >>> table = Table([{"n": 1, "square": 1}, {"n": 2, "square": 4}])
    >>> table[1]["square"], table.column("n")
    (4, [1, 2])
    >>> print(table)
    n  square
    1  1
    2  4
    """

    def __init__(self, rows: list[dict[str, Any]], title: str = "") -> None:
        self.rows = rows
        self.title = title

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.rows[0]) if self.rows else []

    def column(self, name: str) -> list[Any]:
        """The values of a column."""
        return [row[name] for row in self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> Table: ...
    def __getitem__(self, at: int | slice) -> dict[str, Any] | Table:
        return Table(self.rows[at], self.title) if isinstance(at, slice) else self.rows[at]

    def __str__(self) -> str:
        lines = [self.columns] + [[_cell(value) for value in row.values()] for row in self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
        return "\n".join(([self.title] if self.title else []) + text)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_cell(value))}</td>" for value in row.values()) + "</tr>"
            for row in self.rows
        )
        title = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
        return f"<table>{title}<tr>{head}</tr>{body}</table>"

    def to_pandas(self) -> Any:
        """The table as a `pandas.DataFrame`. It needs pandas."""
        import pandas

        return pandas.DataFrame(self.rows)

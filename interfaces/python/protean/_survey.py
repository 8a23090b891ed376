"""What this build has, and what is known of a matrix before it is solved with."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from . import _core
from ._convert import core_matrix, dtype_of, is_sparse, threads_of
from ._matrix import Matrix
from ._table import Table
from ._vectors import F32, is_float32
from .errors import BadArgument, Error


def formats() -> Table:
    """All storage formats of this build.

    Examples
    --------
    >>> import protean
    >>> "sell-packed" in protean.formats().column("format")
    True
    """
    return Table(_core.formats())


def methods() -> Table:
    """All Krylov methods.

    Examples
    --------
    >>> import protean
    >>> protean.methods().column("method")
    ['cg', 'fcg', 'minres', 'bicgstab', 'bicgstab2', 'idr', 'gmres', 'fgmres']
    """
    return Table(_core.methods())


def preconditioners() -> Table:
    """All preconditioners; `unavailable` says why one is not in this build."""
    return Table(_core.preconditioners())


def options() -> Table:
    """All options of `solve` and `preconditioner`, with defaults, what they may be, and who reads them.

    Options of sections "solve" and "solver" are keywords (combine: in the dict of a composition). Options of
    "preconditioner" go into its dict, options of "policy" into ``policy={...}``. They are the keys of a problem file.
    """
    return Table(_core.options())


def _core_of(A: Any) -> Any:
    if isinstance(A, Matrix):
        return A._core
    if not is_sparse(A) and hasattr(A, "matvec"):
        raise BadArgument("a LinearOperator has no entries to look at; give a matrix")
    return core_matrix(A, is_float32(dtype_of(A)), threads_of(None))


class Choice(Table):
    """What `choose` found: the rows are the formats that were considered, the best first."""

    format: str
    """The format that "auto" stands for."""
    reason: str
    order: str
    """The order of the rows that "auto" stands for."""
    order_reason: str


def choose(A: Any, *, expected_iterations: int = 0, method: str = "cg", selector: str = "model") -> Choice:
    """Predict which storage format solves fastest, with the time of the conversion.

    Parameters
    ----------
    A : Matrix, sparse array or matrix, or array of shape (m, n)
        The matrix. Nothing is converted; a sample of its rows is looked at.
    expected_iterations : int, optional
        How many iterations the solve will need; 0: not known, 300 are assumed.
    method : str, optional
        Its products an iteration count.
    selector : str, optional
        What chooses the format (docs/selectors.md); the predictions come from "model" in any case.

    Returns
    -------
    Choice
        A `Table` of the formats with predicted seconds, and the attributes ``format``, ``reason``, ``order`` and
        ``order_reason``.

    Examples
    --------
    >>> import numpy as np, protean
    >>> protean.choose(np.eye(10)).format
    'csr'
    """
    id, reason, order, order_reason, rows = _core.choose(_core_of(A), expected_iterations, method, selector)
    result = Choice(rows, f"{id}: {reason}")
    result.format, result.reason, result.order, result.order_reason = id, reason, order, order_reason
    return result


def inspect(A: Any) -> Table:
    """Tell the features of a matrix: its rows, bandwidths, blocks, symmetry, and whether it is seen to be singular.

    Parameters
    ----------
    A : Matrix, sparse array or matrix, or array of shape (m, n)
        The matrix.

    Returns
    -------
    Table
        With columns "feature" and "value".

    Examples
    --------
    >>> import numpy as np, protean
    >>> features = protean.inspect(np.diag([1.0, 2.0, 3.0]))
    >>> {row["feature"]: row["value"] for row in features}["nonzeros"]
    3
    """
    return Table([{"feature": key, "value": value} for key, value in _core.inspect(_core_of(A)).items()])


def compare(A: Any, formats: list[str] | str | None = None, *, seconds: float = 0.05) -> Table:
    """Measure formats on this machine: conversion, bytes, and product.

    Parameters
    ----------
    A : Matrix, sparse array or matrix, or array of shape (m, n)
        The matrix. It keeps its format; a second one is converted.
    formats : list of str, or "all", optional
        Names of formats. Left out: those that `choose` considers.
    seconds : float, optional
        How long the product of each format is measured; the least time counts.

    Returns
    -------
    Table
        One row a format, the fastest product first; ``why`` says why a format refused the matrix.

    Examples
    --------
    >>> import numpy as np, protean
    >>> table = protean.compare(np.eye(100), ["csr", "ell"], seconds=0.001)
    >>> sorted(table.column("format"))
    ['csr', 'ell']
    """
    given = _core_of(A)
    indptr, indices, data = given.csr()
    made = _core.MatrixF32 if data.dtype == F32 else _core.MatrixF64
    rows, cols = given.shape
    threads = 0 if given.ordinal >= 0 else given.threads
    core = made.of_csr(rows, cols, indptr, indices, data, (indptr, indices, data), threads, given.ordinal)
    if formats is None:
        names = [row["format"] for row in _core.choose(core, 0, "cg", "model")[4]]
    elif formats == "all":
        names = [row["format"] for row in _core.formats()]
    elif isinstance(formats, str):
        raise BadArgument("formats is a list of names, or 'all'")
    else:
        names = list(formats)
    known = [row["format"] for row in _core.formats()]
    table: list[dict[str, Any]] = []
    for name in names:
        row: dict[str, Any] = {
            "format": name,
            "bytes": None,
            "convert_seconds": None,
            "product_seconds": None,
            "why": "",
        }
        try:
            core.convert("csr", None, "", None)
            begin = perf_counter()
            core.convert(name, None, "", None)
            row["convert_seconds"] = perf_counter() - begin
            row["bytes"] = core.bytes
            row["product_seconds"] = core.time_product(seconds)
        except Error as refused:
            if name not in known:
                raise
            row["why"] = str(refused)
        table.append(row)
    table.sort(key=lambda row: (row["product_seconds"] is None, row["product_seconds"] or 0.0))
    return Table(table)

"""Krylov solvers whose matrix changes its storage format while the solve is running.

`protean.linalg` has solvers with the signatures of `scipy.sparse.linalg`. The functions here do what SciPy does not:
`matrix` stores a matrix in any of the formats, `solve` returns a report, `choose`, `inspect` and `compare` tell of a
matrix.

Examples
--------
>>> import numpy as np, protean
>>> A = 4 * np.eye(100) - np.eye(100, k=1) - np.eye(100, k=-1)
>>> report = protean.solve(A, np.ones(100), method="cg", preconditioner="jacobi")
>>> report.converged
True
"""

import atexit
import os

from . import _core, errors, linalg
from ._convert import get_threads, set_threads
from ._device import DeviceArray
from ._matrix import Matrix, matrix
from ._preconditioner import Preconditioner, preconditioner, rigid_body_modes
from ._report import Column, Iteration, Report
from ._solve import Solver, solve
from ._survey import Choice, choose, compare, formats, inspect, methods, options, preconditioners
from ._table import Table

__version__ = _core.__version__

# A thread that computes while the interpreter ends would take the process down.
atexit.register(_core.stop_solves)
os.register_at_fork(after_in_child=_core.forget_solves)

__all__ = [
    "Choice",
    "Column",
    "DeviceArray",
    "Iteration",
    "Matrix",
    "Preconditioner",
    "Report",
    "Solver",
    "Table",
    "choose",
    "compare",
    "errors",
    "formats",
    "get_threads",
    "inspect",
    "linalg",
    "matrix",
    "methods",
    "options",
    "preconditioner",
    "preconditioners",
    "rigid_body_modes",
    "set_threads",
    "solve",
]

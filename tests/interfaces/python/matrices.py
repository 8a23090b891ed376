"""Matrices of the tests of the Python package."""

import numpy as np
import scipy.sparse as sp


def poisson(n, dtype=np.float64):
    """Five-point Laplacian of an n x n grid, csr with int32 indices."""
    line = sp.diags_array([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])
    return sp.csr_array(sp.kronsum(line, line), dtype=dtype)


def convection(n, dtype=np.float64):
    """The same with convection: unsymmetric."""
    line = sp.diags_array([-1.4 * np.ones(n - 1), 2 * np.ones(n), -0.6 * np.ones(n - 1)], offsets=[-1, 0, 1])
    return sp.csr_array(sp.kronsum(line, line), dtype=dtype)


def indefinite(n):
    """Symmetric with eigenvalues of both signs, well away from 0."""
    return sp.csr_array(poisson(n) - 0.6 * sp.eye_array(n * n))


def of(method, n):
    """A matrix that the method is for."""
    if method in ("cg", "fcg"):
        return poisson(n)
    return indefinite(n) if method == "minres" else convection(n)

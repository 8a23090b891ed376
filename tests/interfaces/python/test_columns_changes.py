"""Several right-hand sides: what method auto does in the middle of their solve is reported as for one."""

import numpy as np
import scipy.sparse as sp
from matrices import poisson

import protean


def test_method_auto_goes_on_with_another_method_for_all_columns():
    A = poisson(24) - 0.3 * sp.identity(576, format="csr")
    B = np.random.default_rng(3).standard_normal((576, 3))
    report = protean.solve(A, B, preconditioner="jacobi")
    assert report.converged and report.method == "minres"
    (change,) = report.method_changes
    assert (change["from"], change["to"], change["action"], change["columns"]) == ("cg", "minres", "changed", 3)
    assert 0 < change["iteration"] < report.iterations
    assert report.method_reason == f"minres took the place of cg at iteration {change['iteration']}: {change['reason']}"
    assert "cg -> minres" in report.explain()
    assert report.preconditioner_changes == []
    for j in range(3):
        assert np.linalg.norm(B[:, j] - A @ report.x[:, j]) <= 1.01e-8 * np.linalg.norm(B[:, j])


def test_storage_auto_says_why_it_took_double():
    report = protean.solve(
        poisson(12), np.ones((144, 2)), method="gmres", preconditioner={"type": "ic0", "storage": "auto"}
    )
    assert report.converged and report.storage_reason.startswith("method gmres")

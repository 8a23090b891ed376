"""Together with pyamg and scikit-fem."""

import numpy as np
import pytest
import scipy.sparse.linalg as spla

from protean import linalg, solve


def test_matrices_and_hierarchies_of_pyamg():
    pyamg = pytest.importorskip("pyamg", reason="pyamg is not installed")
    gallery = [pyamg.gallery.poisson((40, 40), format="csr"), pyamg.gallery.linear_elasticity((15, 15))[0].tocsr()]
    for A in gallery:
        b = np.random.default_rng(1).standard_normal(A.shape[0])
        hierarchy = pyamg.smoothed_aggregation_solver(A)
        plain = []
        assert linalg.cg(A, b, rtol=1e-8, callback=plain.append)[1] == 0
        for M in (hierarchy, hierarchy.aspreconditioner()):
            seen = []
            x, info = linalg.cg(A, b, rtol=1e-8, M=M, callback=seen.append)
            assert info == 0 and len(seen) < len(plain) / 2
            assert np.linalg.norm(b - A @ x) <= 1e-8 * np.linalg.norm(b)
        assert solve(A, b, preconditioner=hierarchy).converged


def test_scikit_fem():
    skfem = pytest.importorskip("skfem", reason="scikit-fem is not installed")
    from skfem.helpers import dot, grad
    from skfem.models.poisson import laplace, unit_load

    del dot, grad
    mesh = skfem.MeshTri().refined(5)
    basis = skfem.Basis(mesh, skfem.ElementTriP1())
    A, b, _, inner = skfem.condense(laplace.assemble(basis), unit_load.assemble(basis), D=mesh.boundary_nodes())

    def ours(matrix, right):
        x, info = linalg.cg(matrix, right, rtol=1e-10, M="ic0")
        assert info == 0
        return x

    full = laplace.assemble(basis), unit_load.assemble(basis)
    x = skfem.solve(*skfem.condense(*full, D=mesh.boundary_nodes()), solver=ours)
    direct = skfem.solve(*skfem.condense(*full, D=mesh.boundary_nodes()))
    np.testing.assert_allclose(x, direct, rtol=1e-7, atol=1e-9)
    # The largest value of -laplace u = 1 on the unit square is 0.0737.
    assert abs(x.max() - 0.0737) < 1e-3


def test_spilu_of_scipy():
    from matrices import convection

    A = convection(30)
    b = np.ones(900)
    seen, plain = [], []
    linalg.bicgstab(A, b, rtol=1e-10, callback=plain.append)
    x, info = linalg.bicgstab(A, b, rtol=1e-10, M=spla.spilu(A.tocsc()), callback=seen.append)
    assert info == 0 and len(seen) < len(plain) / 2

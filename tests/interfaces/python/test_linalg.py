"""protean.linalg: what it takes, what it gives, and SciPy's answers next to ours."""

import inspect
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from matrices import convection, of, poisson

import protean
from protean import linalg

METHODS = {
    "cg": "cg",
    "fcg": "fcg",
    "minres": "minres",
    "bicgstab": "bicgstab",
    "bicgstab2": "bicgstab2",
    "idrs": "idr",
    "gmres": "gmres",
    "fgmres": "fgmres",
}
FORMS = ["csr", "csc", "coo", "bsr", "dia", "lil"]


def residual(A, x, b):
    return np.linalg.norm(b - A @ x) / np.linalg.norm(b)


def right_side(A, seed=1):
    return A @ np.random.default_rng(seed).standard_normal(A.shape[1])


@pytest.mark.parametrize("name", METHODS)
def test_every_method_solves(name):
    A = of(name, 20)
    b = right_side(A)
    x, info = getattr(linalg, name)(A, b, rtol=1e-9)
    assert info == 0
    assert residual(A, x, b) <= 1e-9
    assert x.shape == b.shape and x.dtype == np.float64


def told(function):
    """Names, kinds and defaults of the parameters; the types that ours are annotated with do not count."""
    return [(one.name, one.kind, one.default) for one in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres", "minres"])
def test_the_signatures_are_scipys(name):
    assert told(getattr(linalg, name)) == told(getattr(spla, name))


@pytest.mark.parametrize(
    "name, like, more",
    [("fcg", "cg", "directions"), ("idrs", "cg", "s"), ("bicgstab2", "cg", ""), ("fgmres", "gmres", "")],
)
def test_the_signatures_of_the_others_are_like_scipys(name, like, more):
    own = told(getattr(linalg, name))
    assert [one for one in own if one[0] != more] == told(getattr(spla, like))
    assert (own[-1][0] == more) == bool(more)


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", FORMS)
def test_every_sparse_form_is_taken(form, kind):
    A = convection(12)
    b = right_side(A)
    given = getattr(sp, f"{form}_{kind}")(A)
    x, info = linalg.bicgstab(given, b, rtol=1e-10)
    assert info == 0 and residual(A, x, b) <= 1e-10


@pytest.mark.parametrize("given", ["dense", "fortran", "list", "matrix", "operator", "ours", "int64", "strided"])
def test_every_other_form_is_taken(given):
    A = poisson(8)
    b = right_side(A)
    wide = sp.csr_array((A.data, A.indices.astype(np.int64), A.indptr.astype(np.int64)), shape=A.shape)
    strided = A.copy()
    strided.data = np.repeat(A.data, 2)[::2]
    forms = {
        "dense": A.toarray(),
        "fortran": np.asfortranarray(A.toarray()),
        "list": A.toarray().tolist(),
        "matrix": np.asmatrix(A.toarray()),
        "operator": spla.aslinearoperator(A),
        "ours": protean.matrix(A, "sell-packed"),
        "int64": wide,
        "strided": strided,
    }
    x, info = linalg.cg(forms[given], b, rtol=1e-10)
    assert info == 0 and residual(A, x, b) <= 1e-10


def test_wide_indices_of_the_caller_are_indeed_wide():
    A = poisson(8)
    wide = sp.csr_array((A.data, A.indices.astype(np.int64), A.indptr.astype(np.int64)), shape=A.shape)
    if wide.indices.dtype != np.int64:
        wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    assert protean.matrix(wide).nnz == A.nnz
    wide.indices[3] = 2**32 + 1  # narrowed without a check, it would be column 1
    with pytest.raises(protean.errors.BadMatrix):
        protean.matrix(wide)


def test_csr_arrays_are_not_copied():
    A = poisson(30)
    M = protean.matrix(A)
    before = M @ np.ones(900)
    A.data *= 2  # against the rule, but it shows whose array it is
    np.testing.assert_allclose(M @ np.ones(900), 2 * before)


def test_unsorted_and_repeated_entries():
    values, columns = np.array([1.0, 4.0, 1.0, 3.0, 1.0]), np.array([1, 0, 0, 1, 1])
    A = sp.csr_array((values, columns, np.array([0, 2, 5])), shape=(2, 2))
    x, info = linalg.cg(A, np.array([1.0, 2.0]), rtol=1e-12)
    assert info == 0
    np.testing.assert_allclose(A.toarray(), [[4, 1], [1, 4]])
    np.testing.assert_allclose(A @ x, [1, 2])


def test_the_type_follows_scipys_rule():
    single = poisson(10, np.float32)
    b = right_side(poisson(10))
    assert linalg.cg(single, b.astype(np.float32))[0].dtype == np.float32
    assert linalg.cg(single, b)[0].dtype == np.float64
    assert linalg.cg(poisson(10), b.astype(np.float32))[0].dtype == np.float64
    assert linalg.cg(sp.csr_array(poisson(10), dtype=np.int64), np.ones(100, dtype=int))[0].dtype == np.float64


def test_float32_is_computed_in_float():
    A = poisson(10, np.float32)
    b = right_side(A).astype(np.float32)
    x, info = linalg.cg(A, b, rtol=1e-12)
    assert info != 0  # beyond float


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", METHODS)
def test_several_right_sides(name, order):
    A = of(name, 12)
    B = np.array(np.stack([right_side(A, seed) for seed in range(3)], axis=1), order=order)
    B[:, 1] = 0
    X, info = getattr(linalg, name)(A, B, rtol=1e-9)
    assert info == 0 and X.shape == B.shape
    assert X.flags.c_contiguous == B.flags.c_contiguous
    assert not X[:, 1].any()
    for j in (0, 2):
        assert residual(A, X[:, j], B[:, j]) <= 1e-9


def test_one_column_gives_a_vector_as_scipy_does():
    A = poisson(5)
    assert linalg.cg(A, np.ones((25, 1)))[0].shape == spla.cg(A, np.ones((25, 1)))[0].shape == (25,)


@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres"])
def test_iterations_are_scipys(name):
    """Without M the methods are the same, and so are their iterations, except for rounding."""
    A = of(name, 20)
    b = right_side(A)
    counts = []
    for module in (linalg, spla):
        seen = []
        more = {"callback_type": "pr_norm", "restart": 30} if name == "gmres" else {}
        _, info = getattr(module, name)(A, b, rtol=1e-8, callback=seen.append, **more)
        assert info == 0
        counts.append(len(seen))
    assert abs(counts[0] - counts[1]) <= 1 + counts[1] // 10


@pytest.mark.parametrize("name", ["cg", "bicgstab", "minres"])
def test_maxiter_is_info(name):
    A = of(name, 20)
    x, info = getattr(linalg, name)(A, right_side(A), rtol=1e-12, maxiter=3)
    assert info == 3
    assert x.any()


@pytest.mark.parametrize("name", ["cg", "fcg", "minres", "bicgstab", "bicgstab2", "idrs"])
def test_the_callback_sees_the_iterates(name):
    A = of(name, 12)
    b = right_side(A)
    norms = []
    x, info = getattr(linalg, name)(A, b, rtol=1e-8, callback=lambda x: norms.append(residual(A, x, b)))
    assert info == 0 and len(norms) > 3
    assert norms[-1] <= 1e-7 < norms[0]


def test_the_norms_of_gmres_are_those_of_the_residual():
    A = convection(10)
    b = right_side(A)
    norms = []
    linalg.gmres(A, b, rtol=1e-8, restart=100, callback=norms.append, callback_type="pr_norm")
    assert all(isinstance(one, float) for one in norms)
    for steps in (1, 5):
        x, _ = linalg.gmres(A, b, rtol=1e-14, restart=steps, maxiter=1)
        np.testing.assert_allclose(norms[steps - 1], residual(A, x, b), rtol=1e-6)


def test_exceptions_of_a_callback_come_through():
    class Stop(Exception):
        pass

    def stop(x):
        raise Stop("here")

    with pytest.raises(Stop, match="here") as caught:
        linalg.cg(poisson(10), np.ones(100), callback=stop)
    assert "stop" in [entry.name for entry in caught.traceback]


def test_exceptions_of_an_operator_come_through():
    def product(x):
        raise LookupError("no product")

    A = spla.LinearOperator((4, 4), matvec=product, dtype=float)
    with pytest.raises(LookupError, match="no product") as caught:
        linalg.bicgstab(A, np.ones(4))
    assert "product" in [entry.name for entry in caught.traceback]
    with pytest.raises(LookupError):
        linalg.cg(np.eye(4), np.ones(4), M=A)


@pytest.mark.parametrize("returned", [np.ones(3), np.ones((4, 2)), 1.0])
def test_an_operator_of_another_size_is_refused(returned):
    class Operator:
        shape, dtype = (4, 4), np.dtype(float)

        def matvec(self, x):
            return returned

    with pytest.raises(protean.errors.ShapeMismatch, match="4"):
        linalg.cg(Operator(), np.ones(4))


def test_an_operator_may_keep_its_argument():
    kept = []
    A = poisson(6)

    def product(x):
        kept.append(x)
        return A @ x

    linalg.cg(spla.LinearOperator(A.shape, matvec=product, dtype=float), np.ones(36))
    assert len({id(one) for one in kept}) == len(kept)
    assert np.linalg.matrix_rank(np.array(kept)) > 3  # the arguments of different calls


def test_a_solve_within_an_operator():
    """An operator, or a preconditioner, may itself solve."""
    A = poisson(10)
    inner = spla.LinearOperator(A.shape, matvec=lambda r: linalg.cg(A, r, rtol=1e-2)[0], dtype=float)
    x, info = linalg.fgmres(A, np.ones(100), M=inner, rtol=1e-10)
    assert info == 0 and residual(A, x, np.ones(100)) <= 1e-10


PRECONDITIONERS = {
    "name": lambda A: "ic0",
    "dict": lambda A: {"type": "ic", "fill": 1},
    "ours": lambda A: protean.preconditioner("ic0", A),
    "diagonal": lambda A: sp.diags_array(1 / A.diagonal()),
    "sparse": lambda A: sp.csr_array(np.linalg.inv(A.toarray())),
    "dense": lambda A: np.linalg.inv(A.toarray()),
    "matrix": lambda A: protean.matrix(np.linalg.inv(A.toarray())),
    "operator": lambda A: spla.LinearOperator(A.shape, matvec=lambda r: r / A.diagonal(), dtype=float),
    "spilu": lambda A: spla.spilu(A.tocsc()),
}


@pytest.mark.parametrize("kind", PRECONDITIONERS)
@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres", "minres"])
def test_every_form_of_preconditioner(name, kind):
    A = poisson(12)
    A = sp.csr_array(A + sp.diags_array(np.linspace(0, 30, 144)))
    b = right_side(A)
    counts = {}
    for M in (None, PRECONDITIONERS[kind](A)):
        seen = []
        more = {"callback_type": "pr_norm"} if name == "gmres" else {}
        x, info = getattr(linalg, name)(A, b, rtol=1e-9, M=M, callback=lambda _: seen.append(1), **more)
        assert info == 0 and residual(A, x, b) <= 1e-9
        counts[M is None] = len(seen)
    assert counts[False] < counts[True]


def test_preconditioner_of_another_type_than_the_solve():
    A = poisson(10)
    M = protean.preconditioner("jacobi", protean.matrix(A, dtype=np.float32))
    assert M.dtype == np.float32
    x, info = linalg.cg(A, np.ones(100), M=M, rtol=1e-10)
    assert info == 0 and x.dtype == np.float64


def test_our_preconditioner_serves_scipy():
    A = poisson(20)
    M = protean.preconditioner("ic0", A)
    counts = []
    for one in (None, M.aspreconditioner()):
        seen = []
        x, info = spla.cg(A, np.ones(400), M=one, callback=seen.append)
        assert info == 0
        counts.append(len(seen))
    assert counts[1] < counts[0] / 2


def test_cg_refuses_an_unsymmetric_preconditioner():
    with pytest.raises(protean.errors.BadArgument, match="symmetric"):
        linalg.cg(poisson(5), np.ones(25), M="ilu0")


def test_wrong_arguments():
    A = poisson(4)
    b = np.ones(16)
    for wrong in (
        lambda: linalg.cg(A[:, :8], b),
        lambda: linalg.cg(A, np.ones(15)),
        lambda: linalg.cg(A, b, x0=np.ones(3)),
        lambda: linalg.cg(A, b, M=np.eye(3)),
        lambda: linalg.cg(A, b, atol=-1),
        lambda: linalg.cg(A, b, x0="no"),
        lambda: linalg.cg(A, b, M="nothing"),
        lambda: linalg.gmres(A, b, callback=print, callback_type="no"),
        lambda: linalg.cg(A, np.ones((16, 2)), callback=print),
        lambda: linalg.idrs(A, b, s=99),
        lambda: linalg.cg(sp.csr_array(np.diag([1.0, np.nan])), np.ones(2)),
    ):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(TypeError, match="complex"):
        linalg.cg(A.astype(complex), b)
    with pytest.raises(TypeError, match="complex"):
        linalg.cg(A, b * 1j)
    with pytest.raises(TypeError, match="complex"):
        linalg.cg(spla.LinearOperator(A.shape, matvec=lambda x: 1j * x, dtype=float), b)
    with pytest.raises(TypeError):
        linalg.cg(A, b, None, 1e-5)


def test_a_callback_without_type_is_told_as_by_scipy():
    with pytest.warns(DeprecationWarning, match="callback_type"):
        linalg.gmres(poisson(3), np.ones(9), callback=lambda _: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linalg.gmres(poisson(3), np.ones(9), callback=lambda _: None, callback_type="x")


def test_shift_of_minres():
    A = poisson(8)
    b = right_side(A)
    shifted = A - 0.37 * sp.eye_array(64)
    forms = (A, A.toarray(), protean.matrix(A), spla.aslinearoperator(A))
    for given in forms:
        x, info = linalg.minres(given, b, shift=0.37, rtol=1e-10)
        assert info == 0 and residual(shifted, x, b) <= 1e-10


def test_tiny_and_huge_right_sides():
    A = poisson(6)
    warnings.simplefilter("ignore", RuntimeWarning)  # of NumPy's dot product
    for scale in (1e-200, 1e200):
        b = scale * np.ones(36)
        x, info = linalg.gmres(A, b, rtol=1e-8)
        if info == 0:
            assert np.linalg.norm((b - A @ x) / scale) <= 1e-8 * 6 * (1 + 1e-12)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_small_systems(n):
    x, info = linalg.cg(2 * sp.eye_array(n, format="csr"), np.ones(n))
    assert info == 0
    np.testing.assert_allclose(x, 0.5 * np.ones(n))


def test_a_preconditioner_that_computes_products_follows_its_matrix():
    """It must not keep the operator of a format that the matrix has left."""
    A = poisson(40)
    b = np.ones(1600)
    wanted = linalg.cg(A, b, rtol=1e-10)[0]
    for M in ("chebyshev", {"type": "chebyshev", "degree": 3}):
        assert np.allclose(linalg.cg(A, b, rtol=1e-10, M=M)[0], wanted)
    given = protean.matrix(A)
    M = protean.preconditioner("chebyshev", given)
    before = M @ b
    for format in ("ell", "sell-packed", "csr"):
        given.convert(format)
        assert np.allclose(M @ b, before)
        given.convert("dia")
        for other in (given, A):
            x, info = linalg.cg(other, b, rtol=1e-10, M=M)
            assert info == 0 and np.allclose(x, wanted)
        solver = protean.Solver(preconditioner=M, relative_tolerance=1e-10)
        for changed in ("hyb", "ell"):
            assert np.allclose(solver.solve(A, b).x, wanted)
            given.convert(changed)

"""protean.matrix: products, formats, new values, pickling."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from matrices import convection, poisson

import protean


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("format", ["csr", "coo", "ell", "sell-packed", "jad", "csc"])
def test_products(format, dtype):
    A = convection(9, dtype)
    M = protean.matrix(A, format)
    assert M.format == format and M.dtype == dtype and M.shape == (81, 81) and M.nnz == A.nnz
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    x = np.random.default_rng(1).standard_normal(81)
    np.testing.assert_allclose(M @ x, A @ x, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(M.T @ x, A.T @ x, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(x @ M, A.T @ x, rtol=tolerance, atol=tolerance)
    for order in "CF":
        X = np.array(np.random.default_rng(2).standard_normal((81, 3)), order=order)
        np.testing.assert_allclose(M @ X, A @ X, rtol=tolerance, atol=tolerance)
    assert (M @ x).dtype == dtype


# With the format that runs: no other matrix is made, and what it keeps is renewed.
@pytest.mark.parametrize("format", ["csr", "coo", "csc", "sss"])
def test_products_with_the_transpose(format):
    A = poisson(9) if format == "sss" else convection(9, np.float64)
    M = protean.matrix(A, format)
    x = np.random.default_rng(1).standard_normal(81)
    for scale in (1, -2):
        M.update(scale * A)
        np.testing.assert_allclose(M.rmatvec(x), scale * (A.T @ x), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(x @ M, scale * (A.T @ x), rtol=1e-12, atol=1e-12)
    M.convert("sell-packed")
    np.testing.assert_allclose(M.rmatvec(x.astype(np.float32)), -2 * (A.T @ x), rtol=1e-5, atol=1e-5)
    L = M.aslinearoperator()
    np.testing.assert_allclose(L.H @ x, -2 * (A.T @ x), rtol=1e-12, atol=1e-12)
    assert M._transposed is None
    np.testing.assert_allclose(M.T @ x, M.rmatvec(x), rtol=1e-12, atol=1e-12)


def test_a_rectangular_matrix():
    A = sp.random_array((7, 5), density=0.5, rng=np.random.default_rng(3), format="csr")
    M = protean.matrix(A)
    np.testing.assert_allclose(M @ np.ones(5), A @ np.ones(5))
    np.testing.assert_allclose(M.T @ np.ones(7), A.T @ np.ones(7))
    assert M.T.shape == (5, 7)
    N = protean.matrix(A, "coo")
    np.testing.assert_allclose(N.rmatvec(np.ones(7)), A.T @ np.ones(7))
    np.testing.assert_allclose(N.rmatvec(np.ones((7, 2))), A.T @ np.ones((7, 2)))
    with pytest.raises(protean.errors.ShapeMismatch, match="5 x 7"):
        protean.matrix(A).rmatvec(np.ones(5))
    with pytest.raises(protean.errors.ShapeMismatch):
        M @ np.ones(7)


def test_conversions():
    A = poisson(20)
    M = protean.matrix(A)
    assert M.format == "csr"
    x = np.arange(400.0)
    y = M @ x
    in_csr = M.bytes
    assert M.convert("sell-c-sigma", {"C": 8, "sigma": 32}) is M
    assert M.format == "sell-c-sigma" and M.parameters["C"] == "8"
    assert M.bytes != in_csr
    np.testing.assert_allclose(M @ x, y, rtol=1e-13)
    M.convert("csr", order="rcm")
    assert M.order == "rcm"
    np.testing.assert_allclose(M @ x, y, rtol=1e-13)
    M.convert("auto")
    assert M.format_reason


def test_a_refused_conversion_leaves_the_format():
    A = sp.csr_array(np.triu(np.ones((50, 50))))  # unsymmetric
    M = protean.matrix(A, "ell")
    with pytest.raises(protean.errors.FormatRefused):
        M.convert("sss")
    assert M.format == "ell"
    np.testing.assert_allclose(M @ np.ones(50), A @ np.ones(50))
    with pytest.raises(protean.errors.BadArgument, match="Did you mean 'csr'"):
        M.convert("cssr")
    with pytest.raises(protean.errors.BadArgument):
        M.convert("sell-c-sigma", {"C": "many"})
    assert M.format == "ell"


def test_every_format_computes_or_refuses():
    A = poisson(16)
    x = np.random.default_rng(4).standard_normal(256)
    M = protean.matrix(A)
    computed = 0
    for format in protean.formats().column("format"):
        try:
            M.convert(format)
        except (protean.errors.FormatRefused, protean.errors.NotAvailable, protean.errors.BadArgument):
            continue
        computed += 1
        bound = 1e-12 if "single" not in format else 1e-5
        np.testing.assert_allclose(M @ x, A @ x, rtol=bound, atol=bound, err_msg=format)
    assert computed > 60


@pytest.mark.parametrize("format", ["csr", "sell-packed"])
def test_new_values(format):
    A = poisson(10)
    M = protean.matrix(A, format)
    before = M.T @ np.ones(100)
    M.update(3 * A.data)
    assert M.format == format
    np.testing.assert_allclose(M @ np.ones(100), 3 * (A @ np.ones(100)))
    np.testing.assert_allclose(M.T @ np.ones(100), 3 * before)
    M.update(5 * A)
    np.testing.assert_allclose(M @ np.ones(100), 5 * (A @ np.ones(100)))
    with pytest.raises(protean.errors.ShapeMismatch):
        M.update(A.data[:-1])
    with pytest.raises(protean.errors.ShapeMismatch, match="pattern"):
        M.update(sp.eye_array(100))
    with pytest.raises(protean.errors.BadMatrix):
        M.update(np.full_like(A.data, np.inf))
    np.testing.assert_allclose(M @ np.ones(100), 5 * (A @ np.ones(100)))


def test_new_values_of_rows_that_were_not_sorted():
    A = sp.csr_array((np.array([1.0, 4.0, 3.0, 1.0]), np.array([1, 0, 1, 0]), np.array([0, 2, 4])), shape=(2, 2))
    M = protean.matrix(A)
    with pytest.raises(protean.errors.BadArgument, match="sparse matrix"):
        M.update(np.ones(4))
    M.update(2 * A)
    np.testing.assert_allclose(M @ np.ones(2), [10, 8])


def test_pickling():
    A = poisson(12)
    for M in (
        protean.matrix(A),
        protean.matrix(A, "sell-c-sigma", {"C": 8, "sigma": 64}),
        protean.matrix(A, "csr", order="rcm", dtype=np.float32),
    ):
        other = pickle.loads(pickle.dumps(M))
        assert (other.format, other.order, other.dtype, other.parameters) == (M.format, M.order, M.dtype, M.parameters)
        np.testing.assert_array_equal(other @ np.ones(144), M @ np.ones(144))
    P = pickle.loads(pickle.dumps(protean.preconditioner("ic", A, fill=2)))
    np.testing.assert_allclose(P @ np.ones(144), protean.preconditioner("ic", A, fill=2) @ np.ones(144))
    solver = pickle.loads(pickle.dumps(protean.Solver("gmres", "ilu0", restart=7, relative_tolerance=1e-4)))
    report = solver.solve(A, np.ones(144))
    assert report.converged and report.method == "gmres" and 1e-8 < report.true_relative <= 1e-4


def test_out_and_in_again():
    A = convection(7)
    M = protean.matrix(A, "ell")
    back = M.tocsr()
    assert (back != A).nnz == 0
    np.testing.assert_allclose(M.aslinearoperator() @ np.ones(49), A @ np.ones(49))
    assert protean.matrix(M, "coo").format == "coo" and M.format == "ell"


def test_arrays_that_are_no_matrix():
    good = poisson(3)
    for change in ("indices", "indptr"):
        A = good.copy()
        getattr(A, change)[2] = -5
        with pytest.raises(protean.errors.BadMatrix):
            protean.matrix(A)
    if protean._core.device_count() == 0:
        with pytest.raises(protean.errors.NotAvailable, match="GPU"):
            protean.matrix(good, space="device")


def test_the_arrays_live_as_long_as_the_matrix():
    M = protean.matrix(sp.csr_array(poisson(50)))
    junk = [np.full(12000, 7.0) for _ in range(50)]
    np.testing.assert_allclose((M @ np.ones(2500)).sum(), poisson(50).sum())
    del junk


def test_tables():
    A = poisson(30)
    choice = protean.choose(A)
    assert choice.format in choice.column("format") and choice.reason
    features = {row["feature"]: row["value"] for row in protean.inspect(A)}
    assert features["rows"] == 900 and features["asymmetry"] == 0 and features["diagonals"] == 5
    singular = {r["feature"]: r["value"] for r in protean.inspect(sp.csr_array([[1.0, -1.0], [-1.0, 1.0]]))}
    assert singular["null_vector"] == "all unknowns"
    table = protean.compare(A, ["csr", "sell-packed", "dense-no"[:0] or "sss"], seconds=0.002)
    times = [t for t in table.column("product_seconds") if t is not None]
    assert times == sorted(times) and len(times) >= 2
    unsymmetric = protean.compare(convection(5), ["csr", "sss"], seconds=0.001)
    assert unsymmetric[1]["format"] == "sss" and unsymmetric[1]["why"] and unsymmetric[1]["bytes"] is None
    with pytest.raises(protean.errors.BadArgument):
        protean.compare(A, ["cssr"])
    considered = protean.compare(A, seconds=0.001)
    assert "csr" in considered.column("format")
    pandas = pytest.importorskip("pandas")
    for one in (table, choice, protean.inspect(A)):
        frame = one.to_pandas()
        assert isinstance(frame, pandas.DataFrame) and list(frame.columns) == one.columns and len(frame) == len(one)
    assert "<td>csr</td>" in table._repr_html_()

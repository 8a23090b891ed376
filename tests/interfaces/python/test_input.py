"""What cannot be right is refused by name, at every entrance: nothing is dropped, cut or guessed."""

import numpy as np
import pytest
import scipy.sparse as sp
from matrices import poisson

import protean
from protean import errors, linalg

N = 25
SOLVERS = {name: getattr(linalg, name) for name in linalg.__all__}
SOLVERS["solve"] = lambda A, b, x0=None, M=None: protean.solve(A, b, x0, preconditioner=M)
SOLVERS["Solver"] = lambda A, b, x0=None, M=None: protean.Solver(preconditioner=M).solve(A, b, x0)
SOLVERS["columns"] = lambda A, b, x0=None, M=None: linalg.cg(
    A, np.stack([b, b], axis=1), None if x0 is None else np.stack([x0, x0], axis=1), M=M
)
SOLVERS["solve-columns"] = lambda A, b, x0=None, M=None: protean.solve(
    A, np.stack([b, b], axis=1), None if x0 is None else np.stack([x0, x0], axis=1), preconditioner=M
)


def with_entry(value, n=N, at=7):
    x = np.ones(n, dtype=type(value) if isinstance(value, complex) else float)
    x[at] = value
    return x


def masked(x):
    return np.ma.MaskedArray(x, mask=np.arange(x.size).reshape(x.shape) % 2 == 0)


# What a vector must not be, the exception, and a word of its message.
VECTORS = {
    "complex": (lambda: with_entry(1 + 1j), TypeError, "complex numbers are not supported"),
    "masked": (lambda: masked(np.ones(N)), ValueError, "masked array"),
    "bool": (lambda: np.ones(N, dtype=bool), TypeError, "no real numbers"),
    "object": (lambda: np.ones(N).astype(object), TypeError, "no real numbers"),
    "strings": (lambda: np.ones(N).astype(str), TypeError, "no real numbers"),
    "nan": (lambda: with_entry(np.nan), ValueError, r"\[\(?7(, 0\))?\] is nan"),
    "inf": (lambda: with_entry(-np.inf), ValueError, r"\[\(?7(, 0\))?\] is -inf"),
}


@pytest.mark.parametrize("kind", VECTORS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_right_hand_sides(solver, kind):
    make, error, text = VECTORS[kind]
    with pytest.raises(error, match=text):
        SOLVERS[solver](poisson(5), make())


@pytest.mark.parametrize("kind", VECTORS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_guesses(solver, kind):
    make, error, text = VECTORS[kind]
    b = np.ones(N)
    with pytest.raises(error, match=text):
        SOLVERS[solver](poisson(5), b, x0=make())
    with pytest.raises(error, match="x0"):
        SOLVERS[solver](poisson(5), b, x0=make())


@pytest.mark.parametrize("run", [linalg.cg, protean.solve], ids=["cg", "solve"])
def test_masked_columns(run):
    B = masked(np.ones((N, 2)))
    with pytest.raises(ValueError, match="b is a masked array"):
        run(poisson(5), B)
    with pytest.raises(ValueError, match="x0 is a masked array"):
        run(poisson(5), np.ones((N, 2)), B)


@pytest.mark.parametrize("shape", [(3,), (5, 5), (N, 2), (1, N), ()])
@pytest.mark.parametrize("run", [linalg.cg, linalg.gmres, protean.solve], ids=["cg", "gmres", "solve"])
def test_shapes_of_guesses(run, shape):
    with pytest.raises(errors.ShapeMismatch, match="x0 has shape"):
        run(poisson(5), np.ones(N), np.ones(shape))
    if shape != (N, 2):
        with pytest.raises(errors.ShapeMismatch, match="x0 has shape"):
            run(poisson(5), np.ones((N, 2)), np.ones(shape))
    with pytest.raises(errors.ShapeMismatch, match="x0 has shape"):
        run(poisson(5), np.ones((N, 3)), np.ones(3))  # which NumPy would have broadcast


@pytest.mark.parametrize("run", [linalg.cg, protean.solve], ids=["cg", "solve"])
def test_a_guess_may_be_a_column_or_a_vector(run):
    exact = np.arange(1.0, N + 1)
    b = poisson(5) @ exact
    for right in (b, b[:, np.newaxis]):
        for guess in (exact, exact[:, np.newaxis], list(exact)):
            x = run(poisson(5), right, guess)
            x = x[0] if isinstance(x, tuple) else x.x
            np.testing.assert_array_equal(np.ravel(x), exact)


def test_strings_as_a_guess():
    with pytest.raises(errors.BadArgument, match="'Mc'"):
        linalg.cg(poisson(5), np.ones(N), "Mc")
    with pytest.raises(TypeError, match="x0: entries of type <U2"):
        protean.solve(poisson(5), np.ones(N), "Mb")


# Matrices, in all forms.
def floats_as_indices(which):
    A = poisson(5)
    setattr(A, which, getattr(A, which) + 0.25)
    return A


class Arrays:
    """A matrix of somebody's own."""

    format = "csr"

    def __init__(self, A, **other):
        self.shape, self.indptr, self.indices, self.data = A.shape, A.indptr, A.indices, A.data
        self.dtype = A.dtype
        self.__dict__.update(other)

    def tocsr(self):
        return self


MATRICES = {
    "complex": (lambda: poisson(5).astype(complex), TypeError, "complex numbers"),
    "bool": (lambda: poisson(5).astype(bool), TypeError, "no real numbers"),
    "dense-bool": (lambda: np.eye(N, dtype=bool), TypeError, "no real numbers"),
    "dense-object": (lambda: np.eye(N).astype(object), TypeError, "no real numbers"),
    "dense-masked": (lambda: masked(np.eye(N)), ValueError, "the matrix is a masked array"),
    "ragged": (lambda: [[1.0, 2.0], [3.0]], ValueError, "is not an array of numbers"),
    "float-indices": (lambda: floats_as_indices("indices"), TypeError, "indices is an array of float64"),
    "float-indptr": (lambda: floats_as_indices("indptr"), TypeError, "indptr is an array of float64"),
    "masked-data": (lambda: Arrays(poisson(5), data=masked(poisson(5).data)), ValueError, "masked array"),
    "masked-indices": (lambda: Arrays(poisson(5), indices=masked(poisson(5).indices)), ValueError, "masked array"),
    "one-dimension": (lambda: sp.coo_array(np.ones(N)), errors.ShapeMismatch, "1 dimension"),
    "one-dimension-csr": (lambda: sp.csr_array(np.ones(N)), errors.ShapeMismatch, "1 dimension"),
    "one-dimension-dense": (lambda: np.ones(N), errors.ShapeMismatch, "1 dimension"),
}
MATRIX_ENTRANCES = {
    "cg": lambda A: linalg.cg(A, np.ones(N)),
    "minres-shift": lambda A: linalg.minres(A, np.ones(N), shift=0.5),
    "gmres": lambda A: linalg.gmres(A, np.ones(N)),
    "solve": lambda A: protean.solve(A, np.ones(N)),
    "matrix": protean.matrix,
    "choose": protean.choose,
    "inspect": protean.inspect,
    "compare": lambda A: protean.compare(A, ["csr"], seconds=0.001),
    "preconditioner": lambda A: protean.preconditioner("jacobi", A),
    "M": lambda A: linalg.cg(poisson(5), np.ones(N), M=A),
    "M-of-solve": lambda A: protean.solve(poisson(5), np.ones(N), preconditioner=A),
    "update": lambda A: protean.matrix(poisson(5)).update(A),
}


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("entrance", MATRIX_ENTRANCES)
def test_matrices(entrance, kind):
    make, error, text = MATRICES[kind]
    if entrance == "update":
        text = text.replace("the matrix is", "values is")
    if entrance == "update" and kind == "one-dimension-dense":
        text = "values"  # which may be a vector
    with pytest.raises(error, match=text):
        MATRIX_ENTRANCES[entrance](make())


@pytest.mark.parametrize("kind", ["complex", "masked", "bool", "object", "strings"])
def test_vectors_of_products_and_values(kind):
    make, error, text = VECTORS[kind]
    A = protean.matrix(poisson(5))
    M = protean.preconditioner("jacobi", A)
    for call in (lambda x: A @ x, lambda x: x @ A, A.matvec, A.rmatvec, M.matvec, lambda x: M @ x):
        if call.__name__ == "<lambda>" and kind == "masked":
            continue  # NumPy's masked arrays compute x @ A themselves
        with pytest.raises(error, match=text):
            call(make())
    values = np.resize(make(), poisson(5).nnz)
    values = masked(values) if kind == "masked" else values
    with pytest.raises(error, match=text):
        A.update(values)


@pytest.mark.parametrize("kind", ["complex", "masked", "bool", "object", "strings"])
def test_near_null_spaces_and_coordinates(kind):
    make, error, text = VECTORS[kind]
    modes = make()[:, np.newaxis]
    modes = masked(np.ones((N, 1))) if kind == "masked" else modes
    given = {"type": "amg", "near_null_space": modes}
    for call in (
        lambda: protean.preconditioner("amg", poisson(5), near_null_space=modes),
        lambda: protean.solve(poisson(5), np.ones(N), preconditioner=given),
        lambda: linalg.cg(poisson(5), np.ones(N), M=given),
    ):
        with pytest.raises(error, match="near_null_space"):
            call()
    places = np.hstack([modes, modes])
    with pytest.raises(error, match=text):
        protean.rigid_body_modes(masked(np.ones((N, 2))) if kind == "masked" else places)


def test_what_functions_return():
    def spoiled(x):
        return masked(x)

    class Operator:
        shape, dtype = (N, N), np.dtype(float)
        matvec = staticmethod(spoiled)

    with pytest.raises(ValueError, match="masked array"):
        linalg.cg(Operator(), np.ones(N))
    with pytest.raises(ValueError, match="masked array"):
        linalg.cg(poisson(5), np.ones(N), M=Operator())


def test_values_out_of_range_are_named():
    for name, value in (("maxiter", 2.5), ("maxiter", -1), ("maxiter", "ten"), ("maxiter", True), ("maxiter", np.nan)):
        with pytest.raises(ValueError, match=name):
            linalg.cg(poisson(5), np.ones(N), **{name: value})
    with pytest.raises(ValueError, match="restart"):
        linalg.gmres(poisson(5), np.ones(N), restart=2.5)
    with pytest.raises(ValueError, match="threads"):
        protean.set_threads(1.5)
    with pytest.raises(ValueError, match="dtype is int64"):
        protean.matrix(poisson(5), dtype=int)
    assert linalg.cg(poisson(5), np.ones(N), maxiter=1e3)[1] == 0


# Matrices of integers are computed in float64, as SciPy does.
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint32, np.float16, np.float32, np.longdouble])
def test_other_real_numbers_are_converted(dtype):
    A = np.diag(np.arange(1, 6)).astype(dtype)
    x, info = linalg.cg(A, np.arange(1, 6).astype(dtype))
    assert info == 0
    np.testing.assert_allclose(x, np.ones(5), rtol=1e-5)


@pytest.mark.parametrize("solver", linalg.__all__)
def test_no_iteration_is_no_success(solver):
    run = SOLVERS[solver]
    exact = np.arange(1.0, N + 1)
    b = poisson(5) @ exact
    x, info = run(poisson(5), b, maxiter=0)
    assert info > 0 and not x.any()
    x, info = run(poisson(5), b, exact, maxiter=0)
    assert info == 0, "the guess is the solution"
    X, info = run(poisson(5), np.stack([b, 2 * b], axis=1), maxiter=0)
    assert info > 0


@pytest.mark.parametrize("what", ["smooth", "random"])
def test_the_default_tolerance_of_float32_is_reached(what):
    A = poisson(60).astype(np.float32)
    b = np.ones(3600) if what == "smooth" else np.random.default_rng(1).standard_normal(3600)
    b = b.astype(np.float32)
    report = protean.solve(A, b)
    assert report.x.dtype == np.float32
    assert report.converged and report.true_relative <= 1e-4, report
    many = protean.solve(A, np.stack([b, b[::-1]], axis=1))
    assert many.converged and many.columns[1].true_relative <= 1e-4
    assert protean.solve(A, b, relative_tolerance=1e-2).true_relative > 1e-4, "what is given counts"
    wide = protean.solve(A.astype(float), b.astype(float))
    assert wide.converged and wide.true_relative <= 1e-8
    kept = protean.Solver()
    assert kept.solve(A.astype(float), b.astype(float)).true_relative <= 1e-8
    assert kept.solve(A, b).converged

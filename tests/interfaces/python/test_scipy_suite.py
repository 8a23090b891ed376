"""SciPy's tests of its iterative solvers, from the installed SciPy, with our functions in the place of its own.

scipy_exceptions.py lists those that do not hold, with reasons; conftest.py leaves out those of other methods, and those
that SciPy skips. They are those of SciPy 1.12 to 1.17.
"""

import importlib.util
import pathlib

import pytest
import scipy
import scipy.sparse.linalg._isolve as isolve
from scipy_exceptions import EXCEPTIONS, OURS

import protean.linalg

TESTS = pathlib.Path(isolve.__file__).parent / "tests"
if not (TESTS / "test_iterative.py").exists():
    pytest.skip("this SciPy was installed without its tests", allow_module_level=True)
if tuple(int(part) for part in scipy.__version__.split(".")[:2]) >= (1, 18):
    # They look each function up in a table of the arrays that it takes, and get these from fixtures of SciPy's own run.
    pytest.skip("the tests of SciPy 1.18 run within SciPy's own test environment only", allow_module_level=True)


def _take_over(name):
    own = {solver: getattr(isolve, solver) for solver in OURS}
    for solver in OURS:
        setattr(isolve, solver, getattr(protean.linalg, solver))
    try:
        spec = importlib.util.spec_from_file_location("protean_scipy_" + name, TESTS / (name + ".py"))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        for solver, function in own.items():
            setattr(isolve, solver, function)
    for key, value in vars(module).items():
        if not key.startswith("__"):
            globals().setdefault(key, value)
    return module


_iterative = _take_over("test_iterative")
_minres = _take_over("test_minres")


def test_the_functions_are_ours():
    for name in OURS:
        assert getattr(_iterative, name).__module__ == "protean.linalg"
    assert _minres.minres is protean.linalg.minres
    assert len(_iterative.cases) > 100


def test_each_exception_is_a_test(request):
    names = {item.name for item in request.session.items}
    if request.config.getoption("keyword") or any("::" in one for one in request.config.args):
        pytest.skip("some tests only were asked for")
    assert not set(EXCEPTIONS) - names

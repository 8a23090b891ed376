"""SciPy's own tests of our methods, which test_scipy_suite.py takes over, with the exceptions marked. And the
libraries of arrays on a GPU, or why a test is skipped without them."""

import os

import pytest
from scipy_exceptions import EXCEPTIONS, OURS, SKIPPED_BY_SCIPY


def pytest_collection_modifyitems(config, items):
    kept, others = [], []
    for item in items:
        if item.module.__name__ != "test_scipy_suite":
            kept.append(item)
            continue
        parameters = getattr(item, "callspec", None)
        solver = None
        if parameters is not None:
            of = parameters.params.get("solver", parameters.params.get("case"))
            solver = getattr(of, "solver", of)
        # Tests of methods that we do not have, and tests that SciPy skips, show nothing about us.
        foreign = item.name in SKIPPED_BY_SCIPY or item.originalname == "test_show" or "TestQMR" in item.nodeid
        foreign = foreign or (callable(solver) and solver.__name__ not in OURS)
        (others if foreign else kept).append(item)
        if item.name in EXCEPTIONS:
            item.add_marker(pytest.mark.xfail(reason=EXCEPTIONS[item.name], strict=True))
    config.hook.pytest_deselected(items=others)
    items[:] = kept


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy", reason="CuPy is not installed")


@pytest.fixture
def sparse(cupy):
    return pytest.importorskip("cupyx.scipy.sparse", reason="CuPy is not installed")


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("no device: this PyTorch has no CUDA")
    return torch


@pytest.fixture
def jax():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # it would take most of the memory
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    jax.config.update("jax_enable_x64", True)
    try:
        jax.devices("gpu")
    except RuntimeError as error:
        pytest.skip(f"no device: JAX has no GPU ({error})")
    return jax

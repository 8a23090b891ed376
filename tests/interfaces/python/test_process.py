"""Ctrl-C, threads, fork, the command, the import, docstrings and types."""

import doctest
import importlib
import multiprocessing
import os
import pathlib
import pkgutil
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from matrices import poisson

import protean
from protean import linalg

def interrupted(run, after=0.5):
    """Seconds from Ctrl-C to the exception, and the exception."""
    sent = []

    def send():
        time.sleep(after)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            run()
        return time.perf_counter() - sent[0], caught.value
    finally:
        sender.join()


def shift_of_rows(n):
    """GMRES with restarts makes no progress with it before n / restart cycles."""
    return sp.csr_array((np.ones(n), (np.arange(n) + 1) % n, np.arange(n + 1)), shape=(n, n))


# Systems that take far longer than the test waits.
LONG = {
    "cg": lambda: (lambda A=poisson(1000), b=np.arange(1e6): linalg.cg(A, b, rtol=1e-14)),
    "idrs": lambda: (lambda A=poisson(1000), b=np.arange(1e6): linalg.idrs(A, b, rtol=1e-14)),
    "gmres": lambda: (lambda A=shift_of_rows(10**5), b=np.eye(1, 10**5)[0]: linalg.gmres(A, b, restart=10)),
    "columns": lambda: (lambda A=poisson(700), b=np.arange(1960000.0).reshape(-1, 4): linalg.cg(A, b, rtol=1e-14)),
    "solve": lambda: (lambda A=poisson(1000), b=np.arange(1e6): protean.solve(A, b, relative_tolerance=1e-14)),
    "python": lambda: (
        lambda A=spla.aslinearoperator(poisson(700)), b=np.arange(490000.0): linalg.cg(A, b, rtol=1e-14)
    ),
}


@pytest.mark.parametrize("name", LONG)
def test_ctrl_c(name):
    seconds, exception = interrupted(LONG[name]())
    assert seconds < 5  # docs/results/python.md has the times; here the machine may be busy
    assert np.isfinite(exception.x).all()
    # All can be used again.
    assert linalg.cg(poisson(5), np.ones(25))[1] == 0


@pytest.mark.parametrize("name", ["cg", "gmres", "solve"])
def test_an_interrupted_solve_leaves_its_iterate(name):
    A, b, calls = poisson(30), np.arange(900.0), [0]

    def interrupt(_):
        calls[0] += 1
        if calls[0] == 25:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        if name == "cg":
            linalg.cg(A, b, rtol=1e-12, callback=interrupt)
        elif name == "gmres":
            linalg.gmres(A, b, rtol=1e-12, restart=100, callback=interrupt, callback_type="pr_norm")
        else:
            protean.solve(A, b, callback=interrupt)
    assert calls[0] == 25
    assert np.linalg.norm(b - A @ caught.value.x) < 0.5 * np.linalg.norm(b)


def test_another_thread_runs_beside_a_solve():
    """The GIL is released."""
    count, done = [0], threading.Event()

    def work():
        while not done.is_set():
            count[0] += 1

    worker = threading.Thread(target=work)
    worker.start()
    begin = count[0]
    protean.set_threads(1)
    try:
        linalg.cg(poisson(300), np.ones(90000), rtol=1e-10)
    finally:
        protean.set_threads(0)
        during = count[0] - begin
        done.set()
        worker.join()
    assert during > 100


@pytest.mark.parametrize("shared", [True, False], ids=["one-matrix", "own-matrices"])
def test_solves_in_several_threads(shared):
    A = poisson(30)
    one = protean.matrix(A)
    results, errors = [None] * 4, []

    def work(number):
        try:
            for _ in range(5):
                M = one if shared else protean.matrix(A)
                seen = []
                report = protean.solve(M, (number + 1.0) * np.ones(900), callback=lambda now: seen.append(M @ now.x))
                assert report.converged and len(seen) == report.iterations + 1
                results[number] = report.x
        except BaseException as error:  # noqa: B902
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors and not any(thread.is_alive() for thread in threads)
    for number in range(1, 4):
        np.testing.assert_allclose(results[number], (number + 1) * results[0], rtol=1e-5)


def test_a_solver_of_two_threads_is_refused():
    solver = protean.Solver("cg")
    A = protean.matrix(poisson(10))

    def again(now):
        solver.solve(A, np.ones(100))

    with pytest.raises(protean.errors.BadArgument, match="its own solver"):
        solver.solve(A, np.ones(100), callback=again)
    assert solver.solve(A, np.ones(100)).converged


def _in_child(M):
    x, info = linalg.cg(poisson(60), np.ones(3600), rtol=1e-10)
    return info, float((M @ np.ones(900)).sum())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_processes_after_use(start):
    assert linalg.cg(poisson(60), np.ones(3600))[1] == 0  # threads run
    M = protean.matrix(poisson(30), "sell-packed")
    M @ np.ones(900)
    with multiprocessing.get_context(start).Pool(2) as pool:
        results = pool.map_async(_in_child, [M] * 4).get(timeout=60)
    assert results == [(0, pytest.approx(float(poisson(30).sum())))] * 4


def test_threads():
    protean.set_threads(1)
    try:
        assert protean.get_threads() == 1 and protean.matrix(poisson(3)).threads == 1
        assert protean.matrix(poisson(3), threads=2).threads == 2
    finally:
        protean.set_threads(0)
    assert protean.solve(poisson(9), np.ones(81), threads=1).converged
    with pytest.raises(protean.errors.BadArgument):
        protean.set_threads(-1)


def run_python(*arguments, **more):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120, **more)


def test_the_command(tmp_path):
    (tmp_path / "problem.yaml").write_text(
        "matrix: {generate: {kind: poisson-2d, n: 20}}\nrhs: {solution: ones}\nsolver: {method: cg}\n"
        "output: {report: report.json}\n"
    )
    done = run_python("-m", "protean", "solve", "problem.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "converged" in (tmp_path / "report.json").read_text()
    wrong = run_python("-m", "protean", "solve", "missing.yaml", cwd=tmp_path)
    assert wrong.returncode == 2


def test_the_import_brings_neither_scipy_nor_matplotlib():
    code = "import sys, protean; print([m for m in ('scipy', 'matplotlib', 'pandas') if m in sys.modules])"
    assert run_python("-c", code).stdout.strip() == "[]"


# What a daemon thread may be doing when the interpreter ends. Each goes on for ever.
AT_THE_END = {
    "cg": "linalg.cg(A, b, rtol=0.0)",
    "callback": "linalg.cg(A, b, rtol=0.0, callback=lambda x: None)",
    "operator": "linalg.cg(spla.aslinearoperator(A), b, rtol=0.0)",
    "preconditioner": "linalg.cg(A, b, rtol=0.0, M=spla.aslinearoperator(sp.eye_array(A.shape[0])))",
    "columns": "linalg.cg(A, np.stack([b, b], axis=1), rtol=0.0)",
    "solve": "protean.solve(A, b, relative_tolerance=0.0, max_iterations=10**9, policy='auto')",
    "iteration": "protean.solve(A, b, relative_tolerance=0.0, max_iterations=10**9, callback=lambda now: None)",
    "product": "M @ b",
    "conversion": "M.convert('ell'), M.convert('csr')",
}


@pytest.mark.parametrize("what", AT_THE_END)
def test_a_daemon_thread_inside_a_solve_when_the_interpreter_ends(what):
    code = f"""
import threading, time
import numpy as np, scipy.sparse as sp, scipy.sparse.linalg as spla
import protean
from protean import linalg
line = sp.diags_array([-np.ones(399), 2 * np.ones(400), -np.ones(399)], offsets=[-1, 0, 1])
A = sp.csr_array(sp.kronsum(line, line))
b = np.arange(160000.0)
M = protean.matrix(A)
begun = threading.Event()

def work():
    begun.set()
    while True:
        {AT_THE_END[what]}

for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
begun.wait()
time.sleep(0.2)
print("end")
"""
    done = run_python("-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_solves_at_exit():
    """In the main thread they go on, before and after ours; a thread that begins one then is ended."""
    code = """
import atexit, threading
import numpy as np

def late(name):
    from protean import linalg
    print(name, linalg.cg(np.eye(3), np.ones(3))[1])

atexit.register(late, "last")
import protean

def thread():
    one = threading.Thread(target=late, args=("thread",), daemon=True)
    one.start()
    one.join()

atexit.register(late, "first")
"""
    done = run_python("-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "first 0\nlast 0\n", "")
    late = code.replace('atexit.register(late, "last")', "")
    late = late.replace("import protean\n", "atexit.register(lambda: thread())\nimport protean\n")
    done = run_python("-c", late)
    assert (done.returncode, done.stdout) == (0, "first 0\n"), done.stderr


def test_a_child_after_a_fork_inside_a_callback_ends_at_once():
    code = """
import os, time
import numpy as np
from protean import linalg

def fork(x):
    global child
    child = os.fork()
    if child == 0:
        raise SystemExit(7)

begin = time.monotonic()
child = None
linalg.cg(np.diag([1.0, 2.0]), np.ones(2), maxiter=1, callback=fork)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = run_python("-W", "ignore", "-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "7\n", "")



def modules():
    return ["protean"] + [f"protean.{m.name}" for m in pkgutil.iter_modules(protean.__path__) if m.name != "__main__"]


@pytest.mark.parametrize("name", [m for m in modules() if m != "protean._core"])
def test_examples_of_the_docstrings(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0
    without = ("errors", "_convert", "_device", "_vectors", "_scipy_docs", "_scipy_rules", "_symmetric")
    assert result.attempted > 0 or name.removeprefix("protean.") in without


def test_the_examples_of_the_page(monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    page = (pathlib.Path(__file__).parents[3] / "docs" / "python.md").read_text()
    blocks = [part.split("```", 1)[0] for part in page.split("```python\n")[1:]]
    assert len(blocks) == 3
    names = {}
    for block in blocks[:2]:  # the last one needs a GPU: test_device.py
        exec(block, names)
    assert names["info"] == 0 and names["report"].converged
    np.testing.assert_allclose(names["A"] @ names["x"], names["b"], atol=1e-5)


def test_each_public_function_is_described():
    for module, names in ((protean, protean.__all__), (linalg, linalg.__all__)):
        for name in names:
            one = getattr(module, name)
            if not callable(one) or name in ("Column", "Iteration", "Report", "Choice"):
                continue
            assert one.__doc__, name
            assert not re.search(r"^ *<[\w -]+>$", one.__doc__, re.M), f"{name}: a placeholder is left over"
            if not isinstance(one, type) and name not in ("get_threads", "preconditioners", "options"):
                assert ">>>" in one.__doc__, name


def test_types():
    pytest.importorskip("mypy")
    folder = pathlib.Path(__file__).parents[3] / "interfaces" / "python"
    done = run_python("-m", "mypy", "--strict", "-p", "protean", cwd=folder)
    assert done.returncode == 0, done.stdout


def test_each_function_of_the_extension_has_its_stub():
    import ast

    stub = ast.parse((pathlib.Path(protean.__file__).parent / "_core.pyi").read_text())
    told = {node.name: node for node in stub.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    there = {name for name in dir(protean._core) if not name.startswith("__")}
    constants = {"has_gpu_code", "cuda_major"}
    assert there - constants == {name for name in told if not name.startswith("_")}

    def members(node):
        own = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
        own |= {n.target.id for n in node.body if isinstance(n, ast.AnnAssign)}
        for base in node.bases:
            own |= members(told[base.id])
        return {name for name in own if not name.startswith("__")}

    for name, node in told.items():
        if isinstance(node, ast.ClassDef) and not name.startswith("_"):
            real = {one for one in dir(getattr(protean._core, name)) if not one.startswith("_")}
            assert members(node) == real, name

#!/usr/bin/env python3
"""protean.linalg next to scipy.sparse.linalg: python_benchmark.py --matrices FOLDER [--wheel FILE] --json FILE
On a GPU, next to cupyx.scipy.sparse.linalg: python_benchmark.py --device --matrices FOLDER --json FILE
The tables of such a file: tables.py python FILE

Overhead of a call for n = 10, the time of an import, the time from Ctrl-C to the exception, with --wheel that of an
installation into an empty environment with the first solve, and solves of ten systems by cg, gmres and bicgstab. Both
libraries solve each system to the same tolerance, in turns, several times; the least time counts, because machines are
shared. Times of ours include the choice of the format and the conversion. Both are called with the same arguments.

The environment is one in which SciPy is fast: OpenBLAS with one thread, whose threads spin otherwise, and a malloc that
keeps its memory, since SciPy allocates vectors in each iteration.

On a GPU, cg solves ten systems, with Jacobi and without, to the same tolerance in turns. Matrices, preconditioners
and right-hand sides lie there before, and both libraries have solved the system once. CuPy has its csr; ours has the
same csr, whose format it chooses in each call, and a kept protean.matrix, whose conversion is measured by itself. The
medians count. Each time is that of the host, from a GPU that is idle to one that is idle again. FOLDER is
problems/matrices.
"""

import argparse
import datetime
import inspect
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import protean
from results import solves
from protean import linalg

if "--device" not in sys.argv:
    import scipy
    import scipy.io
    import scipy.sparse as sp
    import scipy.sparse.linalg as spla


def poisson(*sizes):
    lines = [sp.diags_array([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1]) for n in sizes]
    A = lines[0]
    for line in lines[1:]:
        A = sp.kronsum(A, line)
    return sp.csr_array(A)


def convection(n, strength=0.4):
    line = sp.diags_array(
        [-(1 + strength) * np.ones(n - 1), 2 * np.ones(n), -(1 - strength) * np.ones(n - 1)], offsets=[-1, 0, 1]
    )
    return sp.csr_array(sp.kronsum(line, line))


def from_file(folder, name):
    import lzma

    with lzma.open(pathlib.Path(folder) / f"{name}.mtx.xz") as file:
        return sp.csr_array(scipy.io.mmread(file))


def systems(folder):
    yield "poisson-1d 100", poisson(100), ("cg", "gmres", "bicgstab")
    yield "poisson-2d 30", poisson(30, 30), ("cg", "gmres", "bicgstab")
    yield "poisson-2d 300", poisson(300, 300), ("cg", "bicgstab")
    yield "poisson-2d 600", poisson(600, 600), ("cg",)
    yield "poisson-3d 60", poisson(60, 60, 60), ("cg", "gmres", "bicgstab")
    yield "convection 100", convection(100), ("gmres", "bicgstab")
    yield "convection 250", convection(250), ("gmres", "bicgstab")
    for name, methods in (
        ("G2_circuit", ("cg",)),
        ("Trefethen_20000", ("cg", "gmres", "bicgstab")),
        ("add32", ("gmres", "bicgstab")),
    ):
        yield name, from_file(folder, name), methods


def jacobi(A):
    return sp.csr_array(sp.diags_array(1 / A.diagonal()))


def least_of(runs, budget):
    """The least time of each run, in turns."""
    times = {name: math.inf for name in runs}
    begin, turns = time.perf_counter(), 0
    while turns < 3 or (time.perf_counter() - begin < budget and turns < 300):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name] = min(times[name], time.perf_counter() - start)
        turns += 1
    return times


def overhead(repeats=3000):
    """Microseconds of a call with a diagonal system of n = 10 whose solution takes one iteration."""
    A, b = sp.csr_array(sp.eye_array(10)), np.ones(10)
    result = {}
    for name, module in (("protean", linalg), ("scipy", spla)):
        module.cg(A, b)
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            module.cg(A, b)
            times.append(time.perf_counter() - start)
        result[name] = 1e6 * statistics.median(times)
    M = protean.matrix(A)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        linalg.cg(M, b)
        times.append(time.perf_counter() - start)
    result["protean with a Matrix"] = 1e6 * statistics.median(times)
    return result


def import_seconds(module):
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    return statistics.median(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(9))


def interrupt_seconds(repeats=3):
    """From Ctrl-C to KeyboardInterrupt, for each kind of solve of the test; it needs pytest."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "interfaces" / "python"))
    from test_process import LONG, interrupted

    return {name: [interrupted(make())[0] for _ in range(repeats)] for name, make in LONG.items()}


def install_seconds(wheel):
    """From nothing to the first solve: an empty environment, pip with NumPy from PyPI, and a process that solves."""
    code = (
        "import numpy as np, protean; A = np.diag(np.arange(1.0, 101.0)); "
        "assert protean.solve(A, np.ones(100)).converged"
    )
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = f"{folder}/bin/python"
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel]
        subprocess.run(pip, check=True)
        subprocess.run([python, "-c", code], check=True)
        return time.perf_counter() - start


def symmetric_from_file(folder, name):
    """A symmetric matrix of a Matrix Market file as CSR arrays, without SciPy."""
    import lzma

    with lzma.open(pathlib.Path(folder) / f"{name}.mtx.xz", "rt") as file:
        head = file.readline().split()
        assert head[2] == "coordinate" and head[3] in ("real", "integer") and head[4] == "symmetric", head
        line = file.readline()
        while line.startswith("%"):
            line = file.readline()
        n = int(line.split()[0])
        entries = np.loadtxt(file)
    rows, columns, values = entries[:, 0].astype(np.int64) - 1, entries[:, 1].astype(np.int64) - 1, entries[:, 2]
    beside = rows != columns
    rows, columns = np.concatenate([rows, columns[beside]]), np.concatenate([columns, rows[beside]])
    values = np.concatenate([values, values[beside]])
    order = np.lexsort((columns, rows))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    return indptr.astype(np.int32), columns[order].astype(np.int32), values[order]


def laplacian(*sizes):
    """The stencil of 2 d + 1 points on a grid of d dimensions as CSR arrays, without SciPy."""
    rows = np.arange(math.prod(sizes))
    entries, steps = [(np.ones(rows.size, dtype=bool), 0, 2.0 * len(sizes))], 1
    for size in sizes:
        at = rows // steps % size
        entries += [(at > 0, -steps, -1.0), (at < size - 1, steps, -1.0)]
        steps *= size
    entries.sort(key=lambda entry: entry[1])
    there = np.stack([entry[0] for entry in entries], axis=1)
    columns = (rows[:, None] + np.array([entry[1] for entry in entries]))[there]
    values = np.broadcast_to([entry[2] for entry in entries], there.shape)[there]
    indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    return indptr.astype(np.int32), columns.astype(np.int32), values


def on_device(given):
    import cupy
    import cupyx.scipy.sparse as cusparse
    import cupyx.scipy.sparse.linalg as cula

    def medians(runs):
        times = {name: [] for name in runs}
        begin = time.perf_counter()
        while len(times[next(iter(times))]) < 9 or time.perf_counter() - begin < given.budget:
            for name, run in runs.items():
                cupy.cuda.Device().synchronize()
                start = time.perf_counter()
                run()
                cupy.cuda.Device().synchronize()
                times[name].append(time.perf_counter() - start)
        return {name: (statistics.median(all), len(all)) for name, all in times.items()}

    # Newer versions have SciPy's name of the tolerance.
    tolerance = "rtol" if "rtol" in inspect.signature(cula.cg).parameters else "tol"
    theirs_to = {tolerance: given.rtol, "atol": 0.0, "maxiter": 10000}
    device = cupy.cuda.runtime.getDeviceProperties(0)
    result = {
        "date": datetime.date.today().isoformat(),
        "gpu": device["name"].decode(),
        "versions": {"protean": protean.__version__, "cupy": cupy.__version__, "numpy": np.__version__},
        "rtol": given.rtol,
        "solves": [],
    }
    print(result["gpu"])
    for name, sizes in (
        ("poisson-2d 100", (100, 100)),
        ("poisson-2d 300", (300, 300)),
        ("poisson-3d 60", (60, 60, 60)),
        ("poisson-2d 1000", (1000, 1000)),
        ("poisson-3d 100", (100, 100, 100)),
        ("poisson-3d 200", (200, 200, 200)),
        ("bcsstk16", None),
        ("fv2", None),
        ("Trefethen_2000", None),
        ("G2_circuit", None),
    ):
        arrays = laplacian(*sizes) if sizes else symmetric_from_file(given.matrices, name)
        indptr, indices, values = (cupy.asarray(one) for one in arrays)
        n = indptr.size - 1
        A = cusparse.csr_matrix((values, indices, indptr), shape=(n, n))
        b = A @ cupy.asarray(np.random.default_rng(1).standard_normal(n))
        conversions = []
        for _ in range(5):
            cupy.cuda.Device().synchronize()
            start = time.perf_counter()
            kept = protean.matrix(A)
            kept.convert("auto")
            cupy.cuda.Device().synchronize()
            conversions.append(time.perf_counter() - start)
        inverse = cusparse.diags(1 / A.diagonal(), format="csr")
        for preconditioner, theirs, ours in (("none", None, None), ("jacobi", inverse, "jacobi")):
            row = {
                "system": name,
                "rows": n,
                "entries": int(A.nnz),
                "preconditioner": preconditioner,
                "convert_seconds": statistics.median(conversions),
            }
            iterations = []
            runs = {
                "cupy": lambda M=theirs: cula.cg(A, b, M=M, **theirs_to),
                "protean": lambda M=ours: linalg.cg(A, b, rtol=given.rtol, maxiter=10000, M=M),
                "protean with a Matrix": lambda M=ours: linalg.cg(kept, b, rtol=given.rtol, maxiter=10000, M=M),
            }
            cula.cg(A, b, M=theirs, callback=lambda x: iterations.append(1), **theirs_to)
            row["iterations"] = {"cupy": len(iterations)}
            report = protean.solve(
                kept, b, preconditioner=ours or "none", relative_tolerance=given.rtol, max_iterations=10000
            )
            row["iterations"]["protean"], row["format"] = report.iterations, report.format
            for library, run in runs.items():
                x, info = run()
                error = float(cupy.linalg.norm(b - A @ x) / cupy.linalg.norm(b))
                row[library] = {"info": int(info), "residual": error}
            for library, (seconds, count) in medians(runs).items():
                row[library] |= {"seconds": seconds, "runs": count}
            row["ratio"] = row["cupy"]["seconds"] / row["protean"]["seconds"]
            row["ratio with a Matrix"] = row["cupy"]["seconds"] / row["protean with a Matrix"]["seconds"]
            result["solves"].append(row)
            print(
                f"{name:16} {preconditioner:7} cupy {1e3 * row['cupy']['seconds']:9.2f} ms  "
                f"ours {1e3 * row['protean']['seconds']:9.2f} ms ({row['ratio']:5.2f} times)  "
                f"kept {1e3 * row['protean with a Matrix']['seconds']:9.2f} ms "
                f"({row['ratio with a Matrix']:5.2f} times)  "
                f"iterations {row['iterations']['cupy']} {row['iterations']['protean']}  {row['format']}  "
                f"info {row['cupy']['info']} {row['protean']['info']}  "
                f"residual {row['cupy']['residual']:.1e} {row['protean']['residual']:.1e}",
                flush=True,
            )
    for kind in ("ratio", "ratio with a Matrix"):
        ratios = [row[kind] for row in result["solves"]]
        result[f"geometric_mean {kind}"] = float(np.exp(np.mean(np.log(ratios))))
        print(f"{kind}: geometric mean {result[f'geometric_mean {kind}']:.2f}, least {min(ratios):.2f}")
    finish(result, given)


def finish(result, given):
    """Write the file, whole, and print the tables."""
    if given.json:
        path = pathlib.Path(given.json)
        beside = path.with_name(path.name + ".tmp")
        beside.write_text(json.dumps(result, indent=1) + "\n")
        beside.rename(path)
    solves.print_python(result)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--matrices", help="folder of the matrices (.mtx.xz)")
    arguments.add_argument("--wheel", help="measure the installation of this wheel")
    arguments.add_argument("--device", action="store_true", help="on a GPU, next to CuPy")
    arguments.add_argument("--json")
    arguments.add_argument("--rtol", type=float, default=1e-6)
    arguments.add_argument("--budget", type=float, default=4.0, help="seconds for each solve")
    given = arguments.parse_args()
    if given.matrices is None:
        arguments.error("--matrices names the folder of the matrices")
    if given.device:
        return on_device(given)
    result = {
        "date": datetime.date.today().isoformat(),
        "machine": platform.processor() or platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "threads": protean.get_threads(),
        "versions": {"protean": protean.__version__, "scipy": scipy.__version__, "numpy": np.__version__},
        "rtol": given.rtol,
        "load": os.getloadavg()[0],
        "overhead_us": overhead(),
        "import_seconds": {name: import_seconds(name) for name in ("numpy", "protean", "scipy.sparse.linalg")},
        "interrupt_seconds": interrupt_seconds(),
        "solves": [],
    }
    if given.wheel:
        result["install_seconds"] = install_seconds(given.wheel)
    for name, A, methods in systems(given.matrices):
        b = A @ np.random.default_rng(1).standard_normal(A.shape[0])
        M = jacobi(A)
        for method in methods:
            more = {"restart": 30} if method == "gmres" else {}
            row = {"system": name, "rows": A.shape[0], "entries": int(A.nnz), "method": method}
            runs = {}
            for library, module in (("protean", linalg), ("scipy", spla)):
                solver = getattr(module, method)

                def run(solver=solver):
                    return solver(A, b, rtol=given.rtol, M=M, **more)

                x, info = run()
                error = float(np.linalg.norm(b - A @ x) / np.linalg.norm(b))
                row[library] = {"info": int(info), "residual": error}
                runs[library] = run
            for library, seconds in least_of(runs, given.budget).items():
                row[library]["seconds"] = seconds
            row["ratio"] = row["scipy"]["seconds"] / row["protean"]["seconds"]
            result["solves"].append(row)
            print(
                f"{name:18} {method:9} {row['scipy']['seconds']:10.3g} s {row['protean']['seconds']:10.3g} s "
                f"{row['ratio']:6.2f}  info {row['scipy']['info']} {row['protean']['info']}",
                flush=True,
            )
    ratios = [row["ratio"] for row in result["solves"] if row["scipy"]["info"] == row["protean"]["info"] == 0]
    result["geometric_mean"] = float(np.exp(np.mean(np.log(ratios))))
    result["least"] = min(ratios)
    print(f"geometric mean {result['geometric_mean']:.2f}, least {result['least']:.2f}, of {len(ratios)} solves")
    finish(result, given)
    return None


ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_TOP_PAD_": "268435456",
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
}

if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ENVIRONMENT})
    main()

#!/usr/bin/env python3
"""protean.linalg beside scipy.sparse.linalg: python_benchmark.py --matrices FOLDER --json FILE

Overhead of a call for n = 10, the time of an import, and solves of ten systems by cg, gmres and bicgstab. Both
libraries solve each system to the same tolerance, in turns, several times; the least time counts, because machines are
shared. Times of ours include the choice of the format and the conversion. Both are called with the same arguments.

The environment is one in which SciPy is fast: OpenBLAS with one thread, whose threads spin otherwise, and a malloc that
keeps its memory, since SciPy allocates vectors in each iteration.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import numpy as np
import scipy
import scipy.io
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import protean
from protean import linalg


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


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--matrices", required=True)
    arguments.add_argument("--json")
    arguments.add_argument("--rtol", type=float, default=1e-6)
    arguments.add_argument("--budget", type=float, default=4.0, help="seconds for each solve")
    given = arguments.parse_args()
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
        "solves": [],
    }
    print(result["overhead_us"], result["import_seconds"])
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
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(result, indent=1) + "\n")


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

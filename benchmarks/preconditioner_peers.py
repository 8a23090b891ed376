#!/usr/bin/env python3
"""A Markdown table of what protean-bench-preconditioners solves wrote, with SciPy's solves next to it:

    preconditioner_peers.py FILE.json [--matrices FOLDER] [--runs N]

With --matrices SciPy solves the same systems now, N times each (5): Jacobi, and its spilu (SuperLU's incomplete LU)
with a fill factor of 1 and no threshold, which is the nearest to ILU(0) that it has; none for cg with ic0. The solves
are added to the file. One thread."""
import argparse
import json
import lzma
import os
import pathlib
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"


def scipy_solves(folder, records, runs):
    import numpy
    import scipy
    import scipy.io
    import scipy.sparse.linalg as linalg

    matrices = {}
    done = []
    for key in dict.fromkeys((r["matrix"], r["method"], r["preconditioner"]) for r in records):
        name, method, kind = key
        if kind == "ic0":
            continue
        if name not in matrices:
            with lzma.open(pathlib.Path(folder) / f"{name}.mtx.xz") as file:
                matrices[name] = scipy.io.mmread(file).tocsr()
        A = matrices[name]
        b = A @ numpy.ones(A.shape[0])
        best = None
        for _ in range(runs):
            count = 0

            def counted(_):
                nonlocal count
                count += 1

            begin = time.perf_counter()
            if kind == "jacobi":
                inverse = 1 / A.diagonal()
                M = linalg.LinearOperator(A.shape, matvec=lambda v: inverse * v)
            else:
                factors = linalg.spilu(A.tocsc(), fill_factor=1, drop_tol=0)
                M = linalg.LinearOperator(A.shape, matvec=factors.solve)
            middle = time.perf_counter()
            common = {"M": M, "tol": 1e-8, "atol": 0, "maxiter": 20000, "callback": counted}
            if method == "gmres":
                # Its maxiter counts restarts.
                x, _ = linalg.gmres(A, b, restart=30, callback_type="pr_norm", **(common | {"maxiter": 700}))
            else:
                x, _ = getattr(linalg, method)(A, b, **common)
            end = time.perf_counter()
            if best is None or end - begin < best["setup_seconds"] + best["solve_seconds"]:
                best = {"matrix": name, "rows": A.shape[0], "method": method, "preconditioner": kind,
                        "library": "scipy",
                        "what": "" if kind == "jacobi" else "spilu, fill factor 1", "iterations": count,
                        "setup_seconds": middle - begin, "solve_seconds": end - middle,
                        "residual": float(numpy.linalg.norm(b - A @ x) / numpy.linalg.norm(b)),
                        "version": scipy.__version__}
        done.append(best)
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--matrices")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    path = pathlib.Path(arguments.file)
    data = json.loads(path.read_text())
    if arguments.matrices:
        data["solves"] = [r for r in data["solves"] if r["library"] != "scipy"]
        data["solves"] += scipy_solves(arguments.matrices, data["solves"], arguments.runs)
        path.write_text(json.dumps(data, indent=1) + "\n")
    libraries = ["protean", "petsc", "eigen", "scipy"]
    table = {}
    for r in data["solves"]:
        table.setdefault((r["matrix"], r["method"], r["preconditioner"]), {})[r["library"]] = r
    print("| matrix | method | preconditioner | " + " | ".join(libraries) + " |\n|---|---|---|"
          + "---|" * len(libraries))
    for (matrix, method, kind), by in table.items():
        cells = []
        for library in libraries:
            r = by.get(library)
            if r is None:
                cells.append("")
                continue
            # A solve counts as done if the residual is what was asked for, or nearly.
            cell = f"{r['iterations']:,}: {1e3 * r['setup_seconds']:.2f} + {1e3 * r['solve_seconds']:.2f}"
            cells.append(cell if r["residual"] < 1e-7 else f"{cell} (residual {r['residual']:.0e})")
        print(f"| {matrix} | {method} | {kind} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()

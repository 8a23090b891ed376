#!/usr/bin/env python3
"""Tables in Markdown of loaded_benchmark, and of cg_benchmark on small systems.

usage: loaded_table.py LOADED.json SMALL.json"""
import json
import sys


def head(report):
    machine = report["machine"]
    peers = ", ".join(f"{name} {version}" for name, version in report["peers"].items())
    return (f"Date {machine['date']}, commit {machine['commit']}, {machine['processor']}, {machine['cores']} cores, "
            f"{machine['threads']} threads, {machine['compiler']}; {peers}.\n")


def table(columns, rows):
    return "\n".join("| " + " | ".join(row) + " |" for row in [columns, ["---"] * len(columns)] + rows) + "\n"


def loaded(report):
    print(head(report))
    for matrix in report["matrices"]:
        print(f"{matrix['matrix']}: {matrix['rows']:,} rows, {matrix['nonzeros']:,} nonzeros, "
              f"{matrix['iterations']} iterations. Milliseconds of a solve: median (smallest to largest).\n")
        loads = matrix["loads"]
        columns = ["busy loops"] + [solver["name"] for solver in loads[0]["solvers"]]
        print(table(columns, [[str(load["busy_loops"])] + [
            f"{1e3 * s['seconds_median']:.1f} ({1e3 * s['seconds_min']:.1f} to {1e3 * s['seconds_max']:.1f})"
            for s in load["solvers"]] for load in loads]))
        print(f"Median over the median with {loads[0]['busy_loops']} busy loops:\n")
        print(table(columns, [[str(load["busy_loops"])] + [
            f"{s['seconds_median'] / first['seconds_median']:.2f}"
            for s, first in zip(load["solvers"], loads[0]["solvers"])] for load in loads[1:]]))


def small(report):
    print(head(report))
    print("Microseconds of an iteration: smallest (median).\n")
    rows = []
    for matrix in report["matrices"]:
        def fastest(belongs):
            return min((s for s in matrix["solvers"] if belongs(s)), key=lambda s: s["seconds_min"])

        def text(solver):
            return f"{1e6 * solver['seconds_min']:.1f} ({1e6 * solver['seconds_median']:.1f})"
        best = fastest(lambda s: s["ours"])
        rows.append([matrix["matrix"], f"{matrix['rows']:,}", f"{matrix['nonzeros']:,}",
                     text(fastest(lambda s: s["name"] == "csr")), f"{best['name']} {text(best)}"] + [
                         text(fastest(lambda s, peer=peer: s["name"].startswith(peer)))
                         for peer in ("mkl", "eigen", "petsc")])
    print(table(["matrix", "rows", "nonzeros", "csr", "best format", "MKL", "Eigen", "best of PETSc"], rows))


if len(sys.argv) != 3:
    sys.exit(__doc__)
with open(sys.argv[1]) as file:
    loaded(json.load(file))
with open(sys.argv[2]) as file:
    small(json.load(file))

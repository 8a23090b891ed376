#!/usr/bin/env python3
"""Records residual histories of real solves, for the tests of the forecast and of the switch policy.

    record.py PROTEAN MATRICES FOLDER

PROTEAN is the command, MATRICES a folder with bcsstk17, bodyy4, s1rmt3m1, af23560 and G2_circuit (.mtx.xz) of the
SuiteSparse Matrix Collection, FOLDER where the traces go. A trace is a text file: lines that begin with '#' say how
it was made, then the relative residual of the recurrence after 0, 1, 2, ... iterations, four digits, one a line.
Runs longer than 6000 iterations are recorded as far as that.
"""
import os
import subprocess
import sys
import tempfile

LONGEST = 6000
B = "rhs={value: 1.0}"
RANDOM = "rhs={solution: {random: 7}}"


def generated(kind, **params):
    inner = "".join(f", {name}: {value}" for name, value in params.items())
    return f"matrix={{generate: {{kind: {kind}{inner}}}}}"


def problems(folder):
    def real(name):
        return f"matrix={{file: {os.path.abspath(folder)}/{name}.mtx.xz}}"

    jacobi, none = "jacobi", "none"
    return {
        "cg-poisson-3d": (generated("poisson-3d", n=40), B, "cg", none),
        "cg-poisson-2d": (generated("poisson-2d", n=300), RANDOM, "cg", none),
        "cg-anisotropic-2d": (generated("anisotropic-2d", n=150, epsilon_y=0.01), B, "cg", jacobi),
        "cg-anisotropic-3d": (generated("anisotropic-3d", n=40, epsilon_z=0.001), RANDOM, "cg", jacobi),
        "cg-elasticity-3d": (generated("elasticity-3d", n=12), RANDOM, "cg", jacobi),
        "cg-graph-laplacian": (generated("graph-laplacian", n=20000), RANDOM, "cg", jacobi),
        "cg-bcsstk17": (real("bcsstk17"), RANDOM, "cg", jacobi),
        "cg-bodyy4": (real("bodyy4"), RANDOM, "cg", none),
        "cg-s1rmt3m1": (real("s1rmt3m1"), RANDOM, "cg", jacobi),
        "cg-G2_circuit": (real("G2_circuit"), RANDOM, "cg", jacobi),
        "bicgstab-convection": (generated("convection-diffusion-3d", n=40), B, "bicgstab", none),
        "bicgstab-poisson-2d": (generated("poisson-2d", n=200), RANDOM, "bicgstab", none),
        "bicgstab-G2_circuit": (real("G2_circuit"), RANDOM, "bicgstab", jacobi),
        "gmres-convection": (generated("convection-diffusion-3d", n=40), B, "gmres", none),
        "gmres-poisson-3d": (generated("poisson-3d", n=40), RANDOM, "gmres", none),
        "gmres-poisson-2d": (generated("poisson-2d", n=100), RANDOM, "gmres", jacobi),
        "gmres-af23560": (real("af23560"), RANDOM, "gmres", jacobi),
    }


def record(command, name, problem, folder):
    matrix, rhs, method, preconditioner = problem
    with tempfile.TemporaryDirectory() as scratch:
        file = os.path.join(scratch, "problem.yaml")
        history = os.path.join(scratch, "history.csv")
        with open(file, "w") as out:
            out.write("matrix: {generate: {kind: poisson-2d}}\n")
        settings = [matrix, rhs, f"solver={{method: {method}, relative_tolerance: 1.0e-12, max_iterations: {LONGEST}}}",
                    f"preconditioner={{type: {preconditioner}}}", "operator={format: sell-packed}",
                    f"output={{history: {history}}}"]
        run = [command, "solve", file, "--quiet"]
        for setting in settings:
            run += ["--set", setting]
        done = subprocess.run(run, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            sys.exit(f"{name}: {done.stderr}")
        with open(history) as lines:
            rows = [line.split(",") for line in lines if line[0].isdigit()]
    with open(os.path.join(folder, name + ".txt"), "w") as out:
        shown = [s for s in settings if not s.startswith(("output", "operator"))]
        for setting in shown:
            if "/" in setting:
                setting = "matrix={file: " + os.path.basename(setting)
            out.write(f"# {setting}\n")
        for row in rows:
            out.write(f"{float(row[2]):.3e}\n")
    print(f"{name}: {len(rows) - 1} iterations to {float(rows[-1][2]):.1e}")


def main():
    command, matrices, folder = sys.argv[1:]
    for name, problem in problems(matrices).items():
        record(command, name, problem, folder)


main()

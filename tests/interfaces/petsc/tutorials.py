#!/usr/bin/env python3
"""Runs tutorials of PETSc, compiled as they are, with matrices of type aij and of type aijprotean, and compares
what they print: tutorials.py FOLDER LIBRARY COMPILER NAME [RANKS [FORMATS]]. Exit code 77: skipped, with the reason.
PROTEAN_TUTORIALS_JSON in the environment: a file that gets a line of JSON for each number of ranks, with the
iterations (tutorials_table.py)."""
import json
import os
import pathlib
import re
import subprocess
import sys

folder, library = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
compiler, name = sys.argv[3], sys.argv[4]
ranks = [int(n) for n in sys.argv[5].split(",")] if len(sys.argv) > 5 else [1, 2, 4]
formats = sys.argv[6].split(",") if len(sys.argv) > 6 else ["auto", "csr", "sell-packed", "sell-c-sigma", "hyb"]
examples = pathlib.Path("/usr/share/petsc/3.18/share/petsc/examples/src")

# Source, options, and the option that names the type of the matrix.
runs = {
    "ksp-ex2": ("ksp/ksp/tutorials/ex2.c", "-m 40 -n 30 -ksp_monitor -ksp_rtol 1e-9 -pc_type bjacobi", "-mat_type"),
    "ksp-ex10": ("ksp/ksp/tutorials/ex10.c", "-f SYSTEM -ksp_monitor -ksp_rtol 1e-9 -pc_type jacobi", "-mat_type"),
    "ksp-ex23": ("ksp/ksp/tutorials/ex23.c",
                 "-n 90 -ksp_monitor -ksp_rtol 1e-9 -ksp_gmres_restart 90 -pc_type jacobi", "-mat_type"),
    "ksp-ex45": ("ksp/ksp/tutorials/ex45.c",
                 "-da_grid_x 13 -da_grid_y 12 -da_grid_z 11 -ksp_monitor -ksp_rtol 1e-9 -pc_type bjacobi",
                 "-dm_mat_type"),
    "ksp-ex49": ("ksp/ksp/tutorials/ex49.c",
                 "-mx 20 -my 18 -elas_ksp_monitor -elas_ksp_rtol 1e-8 -elas_ksp_type gmres -elas_ksp_gmres_restart 200 "
                 "-elas_pc_type bjacobi -no_view",
                 "-dm_mat_type"),
    "ksp-ex56": ("ksp/ksp/tutorials/ex56.c",
                 "-ne 7 -alpha 1e-3 -ksp_type cg -ksp_monitor -ksp_rtol 1e-8 -pc_type gamg -pc_gamg_type agg "
                 "-mg_levels_ksp_type chebyshev -mg_levels_pc_type jacobi -use_mat_nearnullspace", "-mat_type"),
    "snes-ex19": ("snes/tutorials/ex19.c",
                  "-da_refine 2 -lidvelocity 50 -grashof 500 -snes_monitor -ksp_monitor -ksp_rtol 1e-6 -pc_type asm",
                  "-dm_mat_type"),
    # For one rank only, and the same problem for several.
    "ts-ex3": ("ts/tutorials/ex3.c", "-m 60 -time_dependent_rhs 0 -nox -ksp_monitor -ts_type beuler "
               "-ts_max_steps 10 -ksp_gmres_restart 60 -pc_type jacobi", "-mat_type"),
    "ts-ex4": ("ts/tutorials/ex4.c", "-m 60 -time_dependent_rhs 0 -nox -ksp_monitor -ts_type beuler "
               "-ts_max_steps 10 -ksp_gmres_restart 60 -pc_type jacobi", "-mat_type"),
}
source, options, type_option = runs[name]


if name == "ts-ex3":
    ranks = [1]
if name == "ksp-ex56":  # takes 2 ranks, and cubes
    ranks = [8 if n == 4 else n for n in ranks]


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


if (folder / "skipped.txt").read_text().strip():
    skip((folder / "skipped.txt").read_text().strip())
if not (examples / source).exists():
    skip(f"PETSc's tutorials are not installed: no {examples / source} (Debian: libpetsc3.18-dev-examples)")
work = folder / name
work.mkdir(exist_ok=True)
environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_plm_rsh_agent="false", OMP_NUM_THREADS="1")


def call(command):
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=work, timeout=300)
    if done.returncode != 0:
        print(f"{' '.join(map(str, command))}\nended with {done.returncode}:")
        print(done.stdout[-3000:], done.stderr[-3000:], sep="\n")
        sys.exit(1)
    return done.stdout


flags = subprocess.run(["pkg-config", "--cflags", "--libs", "PETSc", "ompi-c"], capture_output=True, text=True)
if flags.returncode != 0:
    skip("pkg-config does not find PETSc")
program = work / "program"
libraries = call(["pkg-config", "--variable=libdir", "PETSc"]).strip()
call([compiler, "-O1", "-w", "-x", "c", str(examples / source), "-x", "none", "-o", str(program),
      *flags.stdout.split(), "-lm", f"-Wl,-rpath,{libraries}"])
if "SYSTEM" in options:
    import struct

    # A binary file of PETSc: a nonsymmetric matrix of 1500 rows, and a right-hand side.
    n, rows = 1500, []
    for i in range(n):
        row = {i: 5.0}
        for d in (-37, -1, 1, 37):
            if 0 <= i + d < n:
                row[i + d] = -1.0 + 0.3 * (d < 0) - 0.001 * (i % 5)
        rows.append(sorted(row.items()))
    data = struct.pack(">4i", 1211216, n, n, sum(map(len, rows)))
    data += struct.pack(f">{n}i", *map(len, rows))
    data += b"".join(struct.pack(">i", j) for row in rows for j, _ in row)
    data += b"".join(struct.pack(">d", v) for row in rows for _, v in row)
    data += struct.pack(">2i", 1211214, n) + struct.pack(f">{n}d", *(1 + 0.01 * (i % 7) for i in range(n)))
    (work / "system").write_bytes(data)
    options = options.replace("SYSTEM", "system")

monitor = re.compile(r"(\d+) (KSP|SNES) (?:Residual|Function) norm\s+(\S+)")


def norms(text):
    return [(kind, float(value)) for _, kind, value in monitor.findall(text)]


def iterations(text):
    """Of the Krylov method in all of its solves together; each begins with the residual of iteration 0."""
    return sum(kind == "KSP" and number != "0" for number, kind, _ in monitor.findall(text))


failed = 0
for count in ranks:
    common = ["mpirun", "-n", str(count), str(program), *options.split()]
    theirs = call([*common, type_option, "aij"])
    expected = norms(theirs)
    told = {"tutorial": name, "source": source, "ranks": count, "solves": len(re.findall("\\b0 KSP ", theirs)),
            "iterations": {"aij": iterations(theirs)}, "difference": {}}
    if len(expected) < 5:
        print(f"FAILED: {name} on {count} ranks prints {len(expected)} residuals, so there is nothing to compare")
        sys.exit(1)
    for form in formats:
        ours = call([*common, "-dll_append", str(library), type_option, "aijprotean", "-mat_protean_format", form,
                     "-ksp_view", "-elas_ksp_view", "-options_left", "0"])
        found = norms(ours)
        # Rounding errors grow with the iterations. A residual far below the first one is made of them.
        worst = max((abs(a - b) / (abs(b) + 1e-5 * expected[0][1]) for (_, a), (_, b) in zip(found, expected)),
                    default=0)
        used = len(re.findall(r"aijprotean", ours))
        good = len(found) == len(expected) and [k for k, _ in found] == [k for k, _ in expected] and worst < 1e-4
        good = good and used > 0
        failed += not good
        told["iterations"][form], told["difference"][form] = iterations(ours), worst
        print(f"{'ok' if good else 'FAILED'}: {name} on {count} ranks, {form}: {len(found)} residuals of "
              f"{len(expected)}, largest relative difference {worst:.1e}, type named {used} times")
    if os.environ.get("PROTEAN_TUTORIALS_JSON"):
        with open(os.environ["PROTEAN_TUTORIALS_JSON"], "a") as file:
            print(json.dumps(told), file=file)
sys.exit(1 if failed else 0)

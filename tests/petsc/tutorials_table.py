#!/usr/bin/env python3
"""Runs the tutorials of tutorials.py and writes their iterations as docs/results/petsc-tutorials.md:
tutorials_table.py BUILD COMPILER PAGE. Exit code 77: skipped, with the reason."""
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

build, compiler, page = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], pathlib.Path(sys.argv[3])
here = pathlib.Path(__file__).resolve().parent
names = ["ksp-ex2", "ksp-ex10", "ksp-ex23", "ksp-ex45", "ksp-ex49", "ksp-ex56", "snes-ex19", "ts-ex3", "ts-ex4"]
with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder) / "lines"
    environment = {**os.environ, "PROTEAN_TUTORIALS_JSON": str(file)}
    for name in names:
        done = subprocess.run(
            [sys.executable, here / "tutorials.py", build / "tests/petsc", build / "libprotean_petsc.so", compiler,
             name],
            env=environment,
        )
        if done.returncode != 0:
            sys.exit(done.returncode)
    rows = [json.loads(line) for line in file.read_text().splitlines()]

formats = list(rows[0]["difference"])
lines = [
    "# PETSc's tutorials with our matrix types",
    "",
    "Tutorials of PETSc 3.18, compiled as they are, with matrices of type `aij` and of type `aijprotean`, which",
    "`-dll_append libprotean_petsc.so` adds. The numbers are the iterations of the Krylov method in all solves of a",
    "run. The last column is the largest relative difference of a residual in any of the formats from that with `aij`,",
    "where residuals below 1e-5 of the first one count as that much. `ts-ex3` is for one rank; `ts-ex4` is the same",
    "problem for several. `ksp-ex56` takes numbers of ranks that are cubes, and 2. The tests `petsc-tutorial-*` fail",
    "where a number of residuals differs, or where the difference is 1e-4 or more.",
    "",
    f"Written on {datetime.date.today()} by",
    "",
    "```sh",
    "tests/petsc/tutorials_table.py build/cpu-release c++ docs/results/petsc-tutorials.md",
    "```",
    "",
    "| tutorial | ranks | solves | aij | " + " | ".join(formats) + " | difference |",
    "|---" * (5 + len(formats)) + "|",
]
for row in rows:
    counts = [str(row["iterations"][one]) for one in ["aij", *formats]]
    lines.append(f"| {row['tutorial']} (`{row['source']}`) | {row['ranks']} | {row['solves']} | " + " | ".join(counts)
                 + f" | {max(row['difference'].values()):.0e} |")
beside = page.with_name(page.name + ".tmp")
beside.write_text("\n".join(lines) + "\n")
beside.rename(page)

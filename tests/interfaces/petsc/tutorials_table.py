#!/usr/bin/env python3
"""Runs the tutorials of tutorials.py and writes their iterations into docs/results/ranks.md, between the comments
"tutorials:" and "end of tutorials": tutorials_table.py BUILD COMPILER PAGE. Exit code 77: skipped, with the reason."""
import datetime
import json
import os
import pathlib
import re
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
            [sys.executable, here / "tutorials.py", build / "tests/interfaces/petsc", build / "libprotean_petsc.so",
             compiler, name],
            env=environment,
        )
        if done.returncode != 0:
            sys.exit(done.returncode)
    rows = [json.loads(line) for line in file.read_text().splitlines()]

formats = list(rows[0]["difference"])
lines = [
    "Tutorials of PETSc 3.18, compiled as they are, with matrices of type `aij` and of type `aijprotean`, which",
    "`-dll_append libprotean_petsc.so` adds. The numbers are the iterations of the Krylov method in all solves of a "
    "run.",
    f"The formats are {', '.join(formats)}. The last column is the largest relative difference of a residual in any of",
    "them from the residual with `aij`; residuals below 1e-5 of the first one count as that much. The tests",
    f"`petsc-tutorial-*` fail when it is 1e-4 or more. Written on {datetime.date.today()}.",
    "",
    "| tutorial | ranks | solves | iterations with aij | with ours | difference |",
    "|---|---|---|---|---|---|",
]
for name in dict.fromkeys(row["tutorial"] for row in rows):
    its = [row for row in rows if row["tutorial"] == name]
    other = sorted({f"{form}: {row['iterations'][form]}" for row in its for form in formats
                    if row["iterations"][form] != row["iterations"]["aij"]})
    lines.append(f"| {name} (`{its[0]['source']}`) | {', '.join(str(row['ranks']) for row in its)} | "
                 f"{its[0]['solves']} | {', '.join(str(row['iterations']['aij']) for row in its)} | "
                 f"{', '.join(other) or 'the same'} | {max(max(row['difference'].values()) for row in its):.0e} |")
begin, end = re.search(r"^<!-- tutorials: .*-->\n", page.read_text(), re.M), "<!-- end of tutorials -->"
before, _, after = page.read_text().partition(begin[0])
beside = page.with_name(page.name + ".tmp")
beside.write_text(before + begin[0] + "\n".join(lines) + "\n" + end + after.partition(end)[2])
beside.rename(page)

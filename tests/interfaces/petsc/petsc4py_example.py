#!/usr/bin/env python3
"""Runs the example for petsc4py with matrices of type aij and of type aijprotean: petsc4py_example.py FOLDER LIBRARY
EXAMPLE. Exit code 77: skipped, with the reason."""
import os
import pathlib
import re
import subprocess
import sys

folder, library, example = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
if why := (folder / "skipped.txt").read_text().strip():
    print("skipped:", why)
    sys.exit(77)
# Debian's package is for Debian's Python, which need not be the first one of PATH.
pythons = [python for python in (sys.executable, "/usr/bin/python3") if pathlib.Path(python).exists() and
           subprocess.run([python, "-c", "import petsc4py"], capture_output=True, check=False).returncode == 0]
if not pythons:
    print("skipped: petsc4py is not installed (Debian: python3-petsc4py)")
    sys.exit(77)
environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_plm_rsh_agent="false", OMP_NUM_THREADS="1")
failed = False
for ranks in "1", "2", "3":
    results = {}
    for kind, options in {"aij": [],
                          "aijprotean": ["-dll_append", library, "-mat_protean_format", "sell-packed"]}.items():
        done = subprocess.run(["mpirun", "-n", ranks, pythons[0], example, "-n", "60", "-mat_type", kind, *options],
                              capture_output=True, text=True, env=environment, check=False)
        line = re.search(r"type (\w+): (\d+) iterations, .* largest u (\S+)", done.stdout)
        if done.returncode != 0 or not line:
            sys.exit(f"{kind} on {ranks} ranks ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        results[kind] = line.groups()
    aij, ours = results["aij"], results["aijprotean"]
    good = ours[0].endswith("aijprotean") and ours[1:] == aij[1:] and int(aij[1]) > 10
    failed |= not good
    print(f"{'ok' if good else 'FAILED'}: {ranks} ranks, {aij} and {ours}")
sys.exit(failed)

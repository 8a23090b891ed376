#!/usr/bin/env python3
"""Runs a program with mpirun: run_ranks.py RANKS FOLDER PROGRAM [ARGUMENT...]. FOLDER/skipped.txt has the
reason where it was not built; exit code 77 then."""
import os
import pathlib
import subprocess
import sys

ranks, folder, program = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
if why := (folder / "skipped.txt").read_text().strip():
    print("skipped:", why)
    sys.exit(77)
# Also in a container: as root, with fewer processors than ranks, without ssh.
environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_plm_rsh_agent="false", OMP_NUM_THREADS="1")
sys.exit(subprocess.run(["mpirun", "-n", ranks, str(folder / program), *sys.argv[4:]], env=environment,
                        check=False).returncode)

#!/usr/bin/env python3
"""Runs a program that installed_consumer.py has built, or says why there is none:

installed_program.py [--ranks N] FOLDER NAME [ARGUMENT...]

FOLDER is that of a build. A program that was left out has a file NAME.skipped there with the reason. With --ranks it is
started by mpirun, which the library that the program needs brings with it. Exit status: that of the program; 77 when it
was skipped.
"""
import os
import pathlib
import subprocess
import sys

from checks import skip

arguments = sys.argv[1:]
launcher = []
environment = dict(os.environ)
if arguments[0] == "--ranks":
    launcher = ["mpirun", "-n", arguments[1]]
    # Also in a container: as root, with fewer processors than ranks, without ssh.
    environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                    "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_plm_rsh_agent": "false"}
    arguments = arguments[2:]
folder, name = pathlib.Path(arguments[0]), arguments[1]
reason = folder / f"{name}.skipped"
if reason.exists():
    skip(reason.read_text().strip())
if not (folder / "CMakeCache.txt").exists():
    skip("installed-consumer builds it, and was not run or was skipped itself")
if not (folder / name).exists():
    sys.exit(f"{name} was not built, and nothing says why")
sys.exit(subprocess.run([*launcher, str(folder / name), *arguments[2:]], check=False, env=environment).returncode)

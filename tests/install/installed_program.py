#!/usr/bin/env python3
"""Runs a program that installed_consumer.py has built, or says why there is none: installed_program.py FOLDER NAME

FOLDER is that of a build. A program that was left out has a file NAME.skipped there with the reason. Exit status: that
of the program; 77 when it was skipped.
"""
import pathlib
import subprocess
import sys

folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
reason = folder / f"{name}.skipped"
if reason.exists():
    print("skipped:", reason.read_text().strip())
    sys.exit(77)
if not (folder / "CMakeCache.txt").exists():
    print("skipped: installed-consumer builds it, and was not run or was skipped itself")
    sys.exit(77)
if not (folder / name).exists():
    sys.exit(f"{name} was not built, and nothing says why")
sys.exit(subprocess.run([str(folder / name)], check=False).returncode)

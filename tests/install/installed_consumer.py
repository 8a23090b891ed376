#!/usr/bin/env python3
"""Installs a build into a clean prefix, builds the consumer against it with find_package, runs it.

installed_consumer.py CMAKE BUILD_FOLDER WORK_FOLDER COMPILER SANITIZERS
"""
import pathlib
import shutil
import subprocess
import sys

cmake, build, work, compiler, sanitizers = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4], sys.argv[5]
if sanitizers:
    print("skipped: a user's program is not built with the sanitizers of this build")
    sys.exit(77)
shutil.rmtree(work, ignore_errors=True)


def run(*command):
    print("+", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True)


run(cmake, "--install", build, "--prefix", work / "prefix")
run(cmake, "-S", pathlib.Path(__file__).parent / "consumer", "-B", work / "build", "-D", f"CMAKE_PREFIX_PATH={work / 'prefix'}",
    "-D", f"CMAKE_CXX_COMPILER={compiler}", "-D", "CMAKE_BUILD_TYPE=Release")
run(cmake, "--build", work / "build")
run(work / "build" / "consumer")

#!/usr/bin/env python3
"""Installs a build into a clean prefix, builds the consumer and the examples against it with find_package, runs them.

installed_consumer.py CMAKE BUILD_FOLDER WORK_FOLDER COMPILER SANITIZERS EXAMPLES_FOLDER [NAME=VALUE...]

NAME=VALUE are CMake variables with which the programs are configured, such as MFEM_DIR. Programs that need a library
or a compiler which may not be there are built here and run by installed_program.py.
"""
import pathlib
import shutil
import subprocess
import sys

from checks import skip

cmake, build, work, compiler, sanitizers = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4], sys.argv[5]
examples = pathlib.Path(sys.argv[6])
variables = [part for given in sys.argv[7:] for part in ("-D", given)]
if sanitizers:
    skip("a user's program is not built with the sanitizers of this build")
shutil.rmtree(work, ignore_errors=True)


def run(*command):
    print("+", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True)


run(cmake, "--install", build, "--prefix", work / "prefix")
for name, source in (("build", pathlib.Path(__file__).parent / "consumer"), ("examples", examples)):
    run(cmake, "-S", source, "-B", work / name, "-D", f"CMAKE_PREFIX_PATH={work / 'prefix'}",
        "-D", f"CMAKE_CXX_COMPILER={compiler}", "-D", "CMAKE_BUILD_TYPE=Release",
        *variables)
    run(cmake, "--build", work / name)
run(work / "build" / "consumer")
# Each example says by its exit status whether its answer is right.
for program in ("assembled", "one_call", "several_right_sides", "elements", "callback", "c_api"):
    run(work / "examples" / program)

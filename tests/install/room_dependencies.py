#!/usr/bin/env python3
"""Checks that rooms include only the rooms below them: room_dependencies.py SOURCE_FOLDER"""
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
allowed = {
    "core": {"core"},
    "operators": {"core", "operators"},
    "formats": {"core", "operators", "formats"},
    "preconditioners": {"core", "operators", "formats", "preconditioners"},
    "solvers": {"core", "operators", "preconditioners", "solvers"},
    "systems": {"core", "operators", "formats", "preconditioners", "solvers", "systems"},
    "capi": {"core", "operators", "formats", "preconditioners", "solvers", "systems", "capi"},
    "python": {"core", "operators", "formats", "preconditioners", "solvers", "systems", "apps", "python"},
    "petsc": {"core", "operators", "formats", "preconditioners", "solvers", "systems", "petsc"},
}
bad = files = 0
for room, below in allowed.items():
    for file in sorted((source / room).rglob("*")):
        if file.suffix not in {".hpp", ".cpp", ".cu", ".cuh"}:
            continue
        files += 1
        for line, text in enumerate(file.read_text().splitlines(), 1):
            if match := re.match(r'\s*#\s*include\s*[<"](?:protean/)?([a-z_]+)/', text):
                other = match[1]
                if (other in allowed or other in {"apps", "tests", "benchmarks", "research"}) and other not in below:
                    print(f"{file.relative_to(source)}:{line}: {room} may not include {other}")
                    bad += 1
print(f"{files} files, {bad} includes against the direction of dependency")
sys.exit(1 if bad or not files else 0)

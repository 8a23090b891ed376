#!/usr/bin/env python3
"""Checks that rooms include only the rooms below them, and nothing includes an example.

room_dependencies.py SOURCE_FOLDER
"""
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
library = {"core", "operators", "formats", "preconditioners", "solvers", "distributed", "systems"}
below = {
    "core": {"core"},
    "operators": {"core", "operators"},
    "formats": {"core", "operators", "formats"},
    "preconditioners": {"core", "operators", "formats", "preconditioners"},
    "solvers": {"core", "operators", "preconditioners", "solvers"},
    "distributed": {"core", "operators", "formats", "preconditioners", "distributed"},
    "systems": library,
    "interfaces/c": library,
    "interfaces/dealii": library,
    "interfaces/mfem": library,
    "interfaces/petsc": library,
    "interfaces/python": library | {"apps"},
    "apps": library | {"apps", "interfaces/petsc"},
    "research": library | {"apps", "research"},
    "benchmarks": library | {"apps", "research", "interfaces/mfem", "interfaces/petsc", "benchmarks"},
    "examples": set(),  # programs of users: they see what is installed
}
# Folders by which sources name what they include. <protean/...> is what is installed.
rooms = sorted({*below, "tests"}, key=len, reverse=True)
include = re.compile(r'\s*#\s*include\s*([<"])(protean/)?(' + "|".join(rooms) + r")/")
bad = files = 0
for room, allowed in below.items():
    for file in sorted((source / room).rglob("*")):
        if file.suffix not in {".hpp", ".h", ".c", ".cpp", ".cu", ".cuh"}:
            continue
        files += 1
        for line, text in enumerate(file.read_text().splitlines(), 1):
            match = include.match(text)
            if not match or (room == "examples" and match[2]):
                continue
            if match[3] not in allowed | {room}:
                print(f"{file.relative_to(source)}:{line}: {room} may not include {match[3]}")
                bad += 1
print(f"{files} files, {bad} includes against the direction of dependency")
sys.exit(1 if bad or not files else 0)

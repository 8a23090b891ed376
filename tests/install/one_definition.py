#!/usr/bin/env python3
"""one_definition.py PROJECT: no two files define a type of the same name in the same namespace.

The linker takes one of two functions of the same name. If the parameters of the two were different types of one name, a
program computes with the wrong one where the compiler has not inlined it, and no compiler says so. Types in unnamed
namespaces may share names, and so may what Highway compiles for each instruction set.
"""
import collections
import pathlib
import re
import sys

ROOMS = ("core", "operators", "formats", "solvers", "preconditioners", "distributed", "systems", "interfaces", "apps",
         "research")
NAMESPACE = re.compile(r"^(?:inline )?namespace\b\s*(?:PROTEAN_\w+\s+)?([\w:]*)\s*\{(?!.*\}$)")
TYPE = re.compile(r"^(?:template\b.*>\s*)?(?:struct|class|enum class|enum|union)\s+"
                  r"(?:PROTEAN_\w+\s+)?(?:alignas\([^)]*\)\s*)?(\w+)\b(?!::)([^;]*)$")


def definitions(path):
    """Namespace and name of each type that the file defines outside of unnamed namespaces and of other types."""
    inside = []
    for line in path.read_text().splitlines():
        if match := NAMESPACE.match(line):
            inside.append(match[1] or "(unnamed)")
        elif re.match(r"^\}\s*//\s*namespace", line):
            if not inside:
                raise SystemExit(f"{path}: a namespace ends that was not seen to begin")
            inside.pop()
        elif (match := TYPE.match(line)) and "{" in match[2] and "<" not in match[2].split("{")[0].split(":")[0]:
            where = "::".join(inside)
            if "(unnamed)" not in inside and "HWY_NAMESPACE" not in where:
                yield where, match[1]


def main(project):
    places = collections.defaultdict(set)
    files = [path for room in ROOMS for path in sorted((project / room).rglob("*"))
             if path.suffix in (".hpp", ".cpp", ".cu", ".cuh") and "build" not in path.parts]
    for path in files:
        for name in definitions(path):
            places[name].add(str(path.relative_to(project)))
    assert len(places) > 500, f"only {len(places)} types were found"
    several = {name: paths for name, paths in places.items() if len(paths) > 1}
    for (where, name), paths in sorted(several.items()):
        print(f"{where}::{name} is defined in {', '.join(sorted(paths))}; give one of them another name, or put it "
              "into an unnamed namespace")
    print(f"{len(places)} types in {len(files)} files")
    return 1 if several else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))

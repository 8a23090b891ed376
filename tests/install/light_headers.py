#!/usr/bin/env python3
"""light_headers.py COMPILER INCLUDE_FOLDER: what the headers that programs include most reach, by the compiler's -M.

<protean/solve.hpp> reaches few of our headers, and no header of the standard library that takes long to compile, except
those that <memory>, <functional> and their like bring themselves. No time is measured.
"""
import pathlib
import subprocess
import sys

compiler, folder = sys.argv[1], pathlib.Path(sys.argv[2])
# What an entrance may include: strings, arrays, functions and pointers are in its interface.
ALLOWED = ("string", "string_view", "vector", "memory", "functional", "span", "optional", "map", "stdexcept")
DEAR = {"future", "mutex", "shared_mutex", "condition_variable", "thread", "iostream", "fstream", "regex", "chrono",
        "algorithm", "ranges", "any", "variant"}
# The headers, and the largest number of ours that each may reach (0: not counted).
LIGHT = {"solve.hpp": 30, "systems/linear_system.hpp": 30, "solvers/auto_switcher.hpp": 0}
HEAVY = "systems/system_matrix.hpp"  # has a mutex


def reached(*includes):
    """Ours by their path below protean/, and the standard ones by their names."""
    text = "".join(f"#include <{name}>\n" for name in includes)
    run = subprocess.run([compiler, "-std=c++20", "-M", "-I", folder, "-x", "c++", "-"], input=text, text=True,
                         capture_output=True)
    if run.returncode:
        sys.exit(f"{text}does not compile:\n{run.stderr[:2000]}")
    paths = [pathlib.Path(word) for word in run.stdout.replace("\\\n", " ").split()[1:]]
    ours = {str(path.relative_to(folder / "protean")) for path in paths if path.is_relative_to(folder / "protean")}
    standard = {path.name for path in paths if path.suffix == "" and "c++" in str(path.parent)}
    return ours, standard


free = reached(*ALLOWED)[1]
problems = []
for header, most in LIGHT.items():
    ours, standard = reached(f"protean/{header}")
    dear = sorted(DEAR & (standard - free))
    print(f"{header}: {len(ours)} of our headers")
    if dear:
        names = ", ".join(f"<{name}>" for name in dear)
        problems.append(f"<protean/{header}> reaches {names}: forward declarations, or a header for the records alone, "
                        "keep them out")
    if most and len(ours) > most:
        problems.append(f"<protean/{header}> reaches {len(ours)} of our headers, at most {most} are wanted:\n  "
                        + "\n  ".join(sorted(ours)))
    if header not in ours:
        problems.append(f"<protean/{header}> itself was not found among {sorted(ours)}")
if "mutex" not in reached(f"protean/{HEAVY}")[1]:
    problems.append(f"<mutex> was not found in <protean/{HEAVY}>, which includes it: this test sees nothing")
print("\n".join(problems))
sys.exit(1 if problems else 0)

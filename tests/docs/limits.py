#!/usr/bin/env python3
"""limits.py ROOT: every row of the table in docs/limits.md names a test of C++ that exists."""

import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
sources = "\n".join(path.read_text() for path in (root / "tests").rglob("test_*.cpp"))
rows = [line for line in (root / "docs/limits.md").read_text().split("\n")
        if line.startswith("| ") and not line.startswith("| what |")]
if len(rows) < 10:
    sys.exit("docs/limits.md has no table")
wrong = []
for row in rows:
    names = re.findall(r"`(\w+)\.(\w+)`", row.split("|")[4])
    if not names:
        wrong.append(f"no test is named: {row}")
    for suite, test in names:
        if not re.search(rf"TEST(_P|_F)?\({suite}, {test}\)", sources):
            wrong.append(f"there is no test {suite}.{test}")
print("\n".join(wrong) if wrong else f"{len(rows)} limits have tests")
sys.exit(bool(wrong))

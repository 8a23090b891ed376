#!/usr/bin/env python3
"""Every test that docs/formats-fidelity.md names is there: fidelity.py SOURCE_FOLDER"""
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
page = (source / "docs/formats-fidelity.md").read_text()
tests = set()
for file in [f for f in (source / "tests").rglob("*.c*") if f.suffix in (".cpp", ".cu") and "corpus" not in f.parts]:
    for suite, name in re.findall(r"^(?:TYPED_)?TEST(?:_[FP])?\((\w+),\s*(\w+)\)", file.read_text(), re.M):
        tests.add((suite, name))
# `Suite.Name`, or `Suite.*` for all of a suite.
named = set(re.findall(r"`([A-Z]\w+)\.([A-Z]\w*|\*)`", page))
if len(named) < 40:
    sys.exit(f"docs/formats-fidelity.md names {len(named)} tests only: the pattern of this test no longer fits")
missing = sorted(f"{suite}.{name}" for suite, name in named
                 if not any(suite == s and name in ("*", n) for s, n in tests))
if missing:
    sys.exit("docs/formats-fidelity.md names tests that are not in tests/: " + ", ".join(missing))
# A row of a table of differences without a test says nothing that is checked.
for line in page.splitlines():
    if line.startswith("| `") and not re.search(r"`[A-Z]\w+\.([A-Z]\w*|\*)`", line) and "not tested" not in line:
        sys.exit(f"docs/formats-fidelity.md has a row without a test: {line[:100]}")
print(f"{len(named)} tests")

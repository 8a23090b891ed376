#!/usr/bin/env python3
"""claims.py ROOT: every figure that README.md claims is on the page of docs/results that it links to.

A claim is a bold figure such as **1.27x** in an item that links to the page. CLAIMS says where the page has it; both
are read, and the figure of the page, rounded as in README.md, must be the claimed one. The picture of README.md may
show the times of its table alone.
"""

import pathlib
import re
import sys

# The figure, its page, the heading of the section, and a pattern whose group is the figure there.
CLAIMS = [
    ("1.27", "switching.md", "## On a host", r"\| the same, the 25 solves of more than 200 iterations \| ([\d.]+) \|"),
    ("4.8", "solves.md", "## An iteration of Jacobi-CG on a GPU", r"^\| pde30 \| 27,000 \|.*\| 4\.65 \| ([\d.]+) \|$"),
    ("1.48", "host-products.md", "## Next to MKL, Eigen and PETSc", r"our best is \*\*([\d.]+) times\*\*"),
]

root = pathlib.Path(sys.argv[1])
readme = (root / "README.md").read_text()
items = re.findall(r"^- (.+?)(?=^- |^$|\Z)", readme, re.M | re.S)
wrong, found = [], 0
known = {figure: its for figure, *its in CLAIMS}


def section(page, heading):
    """The text of the page from this heading to the next one of the same depth."""
    lines = (root / "docs/results" / page).read_text().split("\n")
    if heading not in lines:
        sys.exit(f"docs/results/{page} has no '{heading}'")
    begin = lines.index(heading) + 1
    depth = heading.split()[0] + " "
    end = next((i for i in range(begin, len(lines)) if lines[i].startswith(depth)), len(lines))
    return "\n".join(lines[begin:end])



for item in items:
    for figure in re.findall(r"\*\*(\d[\d.,]*)x\*\*", item):
        found += 1
        if figure not in known:
            wrong.append(f"README.md claims {figure}x, and CLAIMS does not say where that figure comes from")
            continue
        page, heading, pattern = known[figure]
        if f"docs/results/{page}" not in item:
            wrong.append(f"README.md claims {figure}x without a link to docs/results/{page}")
        on_page = re.findall(pattern, section(page, heading), re.M)
        if len(on_page) != 1:
            wrong.append(f"docs/results/{page} has {len(on_page)} places for {figure}x: {pattern}")
        elif f"{float(on_page[0]):.{len(figure.partition('.')[2])}f}" != figure:
            wrong.append(f"README.md claims {figure}x, docs/results/{page} has {on_page[0]}")
if found != len(CLAIMS):
    wrong.append(f"README.md has {found} claims, CLAIMS has {len(CLAIMS)}")
# The picture: its milliseconds are in the table of the same solve.
picture = root / "docs/images/switching.svg"
if picture.exists():
    page = (root / "docs/results/switching.md").read_text()
    times = {f"{float(time):.0f}" for time in re.findall(r"\*\*([\d.]+)\*\*", page)}
    for time in re.findall(r">([\d.]+) ms<", picture.read_text()):
        if f"{float(time):.0f}" not in times:
            wrong.append(f"docs/images/switching.svg shows {time} ms, which docs/results/switching.md does not have")
print("\n".join(wrong) if wrong else f"{found} claims")
sys.exit(bool(wrong))

#!/usr/bin/env python3
"""Writes the tables of options in problems/README.md from what `protean help problem` prints.

usage: docs/options.py PROTEAN [--check]

PROTEAN: the command. --check writes nothing and fails when the tables are not what would be written. A table stands
between the lines <!-- options: SECTION --> and <!-- end -->, where SECTION is a section of the problem file."""
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
readme = root / "problems/README.md"


def table(command, section):
    text = subprocess.run([command, "help", "problem", section], check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^([\w.]+): (.+)\n    (.+?)\.(?: Default: (.+)\.| Required\.)?$", text, re.M)
    lines = ["| key | meaning | value | default |", "|---|---|---|---|"]
    for path, type, about, default in rows:
        if path.startswith(section + ".") and path.count(".") == 1:
            cells = [f"`{path}`", about, type, f"`{default}`" if default else ""]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    if len(lines) < 3:
        sys.exit(f"`{command} help problem {section}` prints no keys")
    return "\n".join(lines)


def main():
    given = [word for word in sys.argv[1:] if word != "--check"]
    if len(given) != 1:
        sys.exit(__doc__)
    before = readme.read_text()
    marks = re.compile(r"(<!-- options: (\w+) -->\n).*?(\n<!-- end -->)", re.S)
    after, count = marks.subn(lambda m: m[1] + table(given[0], m[2]) + m[3], before)
    if count == 0:
        sys.exit(f"{readme} has no <!-- options: SECTION -->")
    if "--check" not in sys.argv:
        readme.write_text(after)
    elif after != before:
        sys.exit(f"{readme} does not have the options of the command; run docs/options.py {given[0]}")
    print(f"{count} tables of options: {'current' if after == before else 'written'}")


main()

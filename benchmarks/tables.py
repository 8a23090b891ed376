#!/usr/bin/env python3
"""Prints the tables of docs/results from what the benchmarks wrote.

    tables.py TABLE FILE... [OPTION...]     one table, in Markdown; `tables.py --list` names the tables
    tables.py pages [--check]               writes all tables of docs/results again, or compares them with their data

FILE is JSON, plain or compressed (.xz). FILE.json.xz:NAME takes one run of a file that holds several.

A page of docs/results has each table between two comments:

    <!-- made by: tables.py cg data/cg-host.json.xz -->
    <!-- end -->

The command runs in docs/results. Its first word is a script of benchmarks. Standard library only.
"""
import sys

from results import elements, formats, preconditioners, products, solves, switching
from results.common import TABLES
from results.pages import write_pages

AREAS = (products, solves, switching, preconditioners, elements, formats)  # each puts its tables into TABLES


def main(words):
    if words[:1] == ["--list"]:
        for name, function in sorted(TABLES.items()):
            print(f"{name:12} {function.__doc__.splitlines()[0]}")
    elif words[:1] == ["pages"] and words[1:] in ([], ["--check"]):
        check = words[1:] == ["--check"]
        stale = write_pages(check)
        print("\n".join(stale))
        return bool(stale) if check else 0
    elif words and words[0] in TABLES and len(words) > 1:
        TABLES[words[0]](words[1:])
    else:
        sys.exit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

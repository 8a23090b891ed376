#!/usr/bin/env python3
"""Prints the slowest files of a Ninja build: slowest.py BUILD_FOLDER [COUNT]"""
import pathlib
import sys

log = pathlib.Path(sys.argv[1]) / ".ninja_log"
count = int(sys.argv[2]) if len(sys.argv) > 2 else 10
seconds = {}
for line in log.read_text().splitlines()[1:]:
    begin, end, _, output, *_ = line.split("\t")
    if output.endswith(".o"):
        seconds[output] = (int(end) - int(begin)) / 1000
for output, time in sorted(seconds.items(), key=lambda item: -item[1])[:count]:
    print(f"{time:7.1f} s  {output}")
print(f"{sum(seconds.values()):7.1f} s  in all for {len(seconds)} files, one after the other")

#!/usr/bin/env python3
"""Counts what the tests did, one line for each reason to skip: summary.py RESULTS_FOLDER CTEST_LOG

GoogleTest binaries write XML into RESULTS_FOLDER; other tests are counted from ctest's log, where exit code 77
means skipped. A skipped test is never counted as passed. Exit status 1 when a test failed or none ran.
"""
import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree


def main() -> int:
    results, log = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    passed = failed = 0
    skipped = collections.defaultdict(list)
    with_xml = set()
    for file in sorted(results.glob("*.xml")):
        with_xml.add(file.stem)
        try:
            root = ElementTree.parse(file).getroot()
        except ElementTree.ParseError:
            failed += 1
            continue
        for case in root.iter("testcase"):
            if case.get("status") != "run":
                continue
            if case.find("failure") is not None:
                failed += 1
            elif (skip := case.find("skipped")) is not None:
                reason = (skip.get("message") or skip.text or "no reason given").strip().splitlines()
                text = reason[-1] if len(reason) > 1 and ":" in reason[0] and reason[0][-1].isdigit() else reason[0]
                skipped[text].append(f"{case.get('classname')}.{case.get('name')}")
            else:
                passed += 1
    # ctest entries that are not GoogleTest binaries.
    name, output = None, ""
    for line in (log.read_text(errors="replace").splitlines() if log.exists() else []):
        if match := re.match(r"^\d+/\d+ Testing: (.+)$", line):
            name, output = match.group(1), ""
        elif name and name not in with_xml:
            output += line + "\n"
            if line == "Test Passed.":
                passed, name = passed + 1, None
            elif line.startswith("Test Skipped.") or "Test Skipped" in line:
                reason = next((l for l in output.splitlines() if l.startswith("skipped:")), "skipped: no reason given")
                skipped[reason.removeprefix("skipped:").strip()].append(name)
                name = None
            elif line.startswith("Test Failed") or line.startswith("Test Timeout") or "***Exception" in line:
                failed, name = failed + 1, None
    for reason, names in sorted(skipped.items()):
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        print(f"skipped ({len(names)}): {reason}\n    {shown}")
    count = sum(len(names) for names in skipped.values())
    print(f"{passed} passed, {failed} failed, {count} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())

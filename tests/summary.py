#!/usr/bin/env python3
"""Counts what the tests did, one line for each reason to skip:
summary.py RESULTS_FOLDER CTEST_JUNIT [--allow-skips REGULAR_EXPRESSION]

CTEST_JUNIT is what `ctest --output-junit` wrote: one entry for each test of ctest. Where RESULTS_FOLDER has
GoogleTest's or pytest's XML for an entry its cases are counted instead. A skipped or disabled test is never counted
as passed, nor is one that has seen only that something was refused (its property "refused"), and an entry that failed
counts at least one failure, also when it died before or after its cases. A case that pytest expected to fail, and
that did, has passed. The last line is the counts alone. Exit status 1 when a test failed or none passed. With
--allow-skips also when a test was skipped or disabled for a reason in which the expression is not found; such reasons
are named before the counts.
"""
import argparse
import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree


def reason_of(skip) -> str:
    text = skip.get("message") or skip.text or "no reason given"
    if text == "collection skipped":  # pytest, of a whole file: the reason is the last of three
        text = (skip.text or text).strip().removesuffix(")").rpartition("Skipped: ")[2].strip("'\"")
    lines = text.strip().splitlines()
    # GoogleTest puts file:line before the message.
    return lines[-1] if len(lines) > 1 and ":" in lines[0] and lines[0][-1].isdigit() else lines[0]


def expression(text: str) -> re.Pattern:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"'{text}' is no regular expression: {error}") from error


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("results", type=pathlib.Path)
    arguments.add_argument("junit", type=pathlib.Path)
    arguments.add_argument("--allow-skips", type=expression, metavar="REGULAR_EXPRESSION")
    given = arguments.parse_args()
    results, junit = given.results, given.junit
    passed, refused, failed, skipped = 0, 0, [], collections.defaultdict(list)
    for entry in ElementTree.parse(junit).getroot().iter("testcase"):
        name, status = entry.get("name"), entry.get("status")
        failed_before = len(failed)
        file = results / f"{name}.xml"
        cases = []
        if file.exists():
            try:
                cases = [case for case in ElementTree.parse(file).getroot().iter("testcase")
                         if case.get("status", "run") == "run"]  # pytest has no status
            except ElementTree.ParseError:
                failed.append(f"{name} (its results are not whole)")
            for case in cases:
                full_name = f"{case.get('classname')}.{case.get('name')}"
                if case.find("failure") is not None or case.find("error") is not None:
                    failed.append(full_name)
                elif (skip := case.find("skipped")) is not None and skip.get("type") != "pytest.xfail":
                    skipped[reason_of(skip)].append(full_name)
                elif any(one.get("name") == "refused" for one in case.iter("property")):
                    refused += 1
                else:
                    passed += 1
            if not cases and len(failed) == failed_before:
                failed.append(f"{name} (it has no test)")
            elif status == "fail" and len(failed) == failed_before:
                failed.append(f"{name} (it failed outside its tests)")
        elif status == "run":
            passed += 1
        elif status == "disabled":
            skipped["disabled"].append(name)
        elif status == "notrun" and (entry.find("skipped").get("message") or "").startswith("SKIP_"):
            output = (entry.findtext("system-out") or "").splitlines()
            text = next((line for line in output if line.startswith("skipped:")), "skipped: no reason given")
            skipped[text.removeprefix("skipped:").strip()].append(name)
        else:  # failed, timed out, or its program is not there
            failed.append(name)
    for reason, names in sorted(skipped.items()):
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        print(f"skipped ({len(names)}): {reason}\n    {shown}")
    for name in failed:
        print(f"failed: {name}")
    forbidden = [reason for reason in sorted(skipped) if given.allow_skips and not given.allow_skips.search(reason)]
    for reason in forbidden:
        print(f"must not be skipped ({len(skipped[reason])}): {reason}")
    count = sum(len(names) for names in skipped.values())
    apart = f", {refused} saw only a refusal" if refused else ""
    print(f"{passed} passed, {len(failed)} failed, {count} skipped{apart}")
    return 1 if failed or forbidden or not passed else 0


if __name__ == "__main__":
    sys.exit(main())

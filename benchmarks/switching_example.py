#!/usr/bin/env python3
"""A solve that changes its storage format next to the same solve in csr alone and in the format it changes to.

    switching_example.py PROTEAN [PROBLEM] [--rounds 9] [--set K=V]... [--json FILE]

Seconds are convert + setup + solve of the command's own reports: what the formats cost, all conversions counted.
The three take turns; each is a new process. The format changed to is the one the policy chose most often.
"""
import argparse
import collections
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("protean")
parser.add_argument("problem", nargs="?", default=str(pathlib.Path(__file__).parent.parent / "problems/switching.yaml"))
parser.add_argument("--set", action="append", default=[], dest="settings")
parser.add_argument("--rounds", type=int, default=9)
parser.add_argument("--json")
given = parser.parse_args()


def run(settings):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "report.json"
        command = [given.protean, "solve", given.problem, "--quiet", "--report", str(file)]
        for setting in given.settings + settings:
            command += ["--set", setting]
        subprocess.run(command, check=True)
        return json.loads(file.read_text())


def cost(report):
    return sum(report["seconds"][stage] for stage in ("convert", "setup", "solve"))


run([])  # files and pages are warm
chosen = collections.Counter(s["to"] for _ in range(3) for s in run([])["switches"])
if not chosen:
    sys.exit(f"{given.problem}: the format was not changed in three solves")
target = chosen.most_common(1)[0][0]
ways = {"csr alone": ["schedule=[]", "operator.format=csr"],
        f"{target} alone": ["schedule=[]", f"operator.format={target}"],
        "policy: auto": []}
reports = {way: [] for way in ways}
for _ in range(given.rounds):
    for way, settings in ways.items():
        reports[way].append(run(settings))

medians = {way: statistics.median(map(cost, runs)) for way, runs in reports.items()}
print("| way | convert, ms | setup, ms | solve, ms | total, ms (least to most) | of csr alone | iterations | changes |")
print("|---|---:|---:|---:|---:|---:|---:|---|")
for way, runs in reports.items():
    stage = {name: 1e3 * statistics.median(r["seconds"][name] for r in runs) for name in ("convert", "setup", "solve")}
    counts = [r["iterations"] for r in runs]
    changes = collections.Counter(" ".join(f"{s['from']} -> {s['to']} at {s['iteration']}" for s in r["switches"])
                                  or "none"
                                  for r in runs)
    few = "; ".join(text for text, _ in changes.most_common(3)) + ("; ..." if len(changes) > 3 else "")
    print(f"| {way} | {stage['convert']:.2f} | {stage['setup']:.2f} | {stage['solve']:.1f} | "
          f"**{1e3 * medians[way]:.1f}** ({1e3 * min(map(cost, runs)):.1f} to {1e3 * max(map(cost, runs)):.1f}) | "
          f"{medians[way] / medians['csr alone']:.2f} | {min(counts)} to {max(counts)} | {few} |")
auto = medians["policy: auto"]
print(f"\ncsr alone takes {medians['csr alone'] / auto:.2f} times as long as auto, {target} alone "
      f"{medians[f'{target} alone'] / auto:.2f} times; medians of {given.rounds}.")
if given.json:
    kept = ("seconds", "iterations", "switches", "residual", "operator")
    text = json.dumps({"problem": pathlib.Path(given.problem).name, "settings": given.settings, "rounds": given.rounds,
                       "machine": reports["policy: auto"][0]["machine"], "median_seconds": medians,
                       "reports": {way: [{k: r[k] for k in kept} for r in runs] for way, runs in reports.items()}},
                      indent=1)
    pathlib.Path(given.json).write_text(text + "\n")

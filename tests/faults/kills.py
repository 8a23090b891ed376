#!/usr/bin/env python3
"""kill -9 while the command writes its files.

    kills.py PROTEAN LIBRARY [--kills 200] [--seed 1] [--json FILE]

First the command is killed before each of its calls about a file, one after the other (LIBRARY is made of
file_faults.cpp). Then it is killed at random moments: most of them in a solve that writes solution, report and history
of 90,000 rows at its end, one in ten in a solve of some seconds, whose history grows and which replaces its solution
every tenth of a second (--checkpoint). Afterwards each output is the old file or a new one, a growing history has whole
lines, and only files NAME.PROCESS.NUMBER.tmp may stand beside them. Then the same command runs to its end and must have
removed these.
"""
import argparse
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import runs

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("protean")
options.add_argument("library")
options.add_argument("--kills", type=int, default=200)
options.add_argument("--seed", type=int, default=1)
options.add_argument("--json")
given = options.parse_args()
library = str(pathlib.Path(given.library).resolve())
failures = []
counts = {"before a call": 0, "at random": 0, "in a long solve": 0, "ended before the kill": 0,
          "left a temporary file": 0, "old outputs": 0, "new outputs": 0}


def complain(run, text):
    failures.append(f"{run.name}: {text}")
    print(f"failed: {failures[-1]}", flush=True)


def check(bench, run, growing=()):
    for name in run.outputs:
        path = bench.here / name
        text = path.read_bytes() if path.exists() else b""
        counts["old outputs" if text == runs.OLD else "new outputs"] += 1
        if name in growing and text != runs.OLD:
            if not text.endswith(b"\n"):
                complain(run, f"{name} ends in the middle of a line")
        elif wrong := bench.wrong_output(run, name):
            complain(run, wrong)
    if unknown := bench.unknown_files(run, True):
        complain(run, f"left behind: {unknown}")
    left = bench.unknown_files(run, False)
    counts["left a temporary file"] += bool(left)
    return left


def run_again(bench, run):
    """The same command to its end, over what the killed one has left."""
    done = bench.execute(run)
    if done.returncode not in run.codes:
        complain(run, f"exit {done.returncode} after a kill: {done.stderr.strip()}")
    if left := bench.unknown_files(run, False):
        complain(run, f"the next run has not removed {left}")


def before_each_call(bench):
    for run in runs.RUNS:
        if not run.outputs:
            continue
        bench.learn(run)
        at = 0
        while True:
            at += 1
            bench.fresh(run)
            done = bench.execute(run, library=library, at=at, kind="kill")
            if bench.fault_of_log() is None:
                break
            if done.returncode != -signal.SIGKILL:
                complain(run, f"call {at}: exit {done.returncode} instead of a kill")
            counts["before a call"] += 1
            if check(bench, run):
                run_again(bench, run)
        print(f"{run.name}: killed before each of {at - 1} calls", flush=True)


class Random(runs.Bench):
    def is_complete(self, run, name, text):
        return runs.has_all_rows(text) if name.endswith(".mtx") else super().is_complete(run, name, text)


def killed_at(bench, run, seconds, growing=()):
    bench.fresh(run)
    process = subprocess.Popen([bench.protean, *run.words], cwd=bench.here, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=bench.environment())
    try:
        process.wait(seconds)
        counts["ended before the kill"] += 1
        if process.returncode not in run.codes:
            complain(run, f"exit {process.returncode}")
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return check(bench, run, growing)


def at_random(bench):
    draw = random.Random(given.seed)
    bench.must(["generate", "poisson-2d", "--set", "matrix.generate.n=300", "-o", "A.pbin", "--quiet"], bench.inputs)
    words = ["solve", "A.pbin", "--solution", "x.mtx", "--report", "r.json", "--history", "h.csv", "--threads", "1",
             "--quiet"]
    outputs = ["x.mtx", "r.json", "h.csv"]
    short = runs.Run("a solve of few iterations", [*words, "--max-iterations", "5"], outputs, codes=(1,))
    endless = ["--tolerance", "1e-30", "--max-iterations", "100000000", "--set", "solver.max_seconds=2.3", "--set",
               "solver.method=minres", "--checkpoint", "0.0017"]
    long = runs.Run("a long solve", [*words, *endless], outputs, codes=(0, 1))
    bench.learn(short)
    begin = time.monotonic()
    bench.fresh(short)
    bench.execute(short)
    whole = time.monotonic() - begin
    for number in range(given.kills):
        if number % 10 == 9:
            counts["in a long solve"] += 1
            left = killed_at(bench, long, draw.uniform(0.2, 2.6), growing=("h.csv",))
            if left:
                run_again(bench, short)
        else:
            counts["at random"] += 1
            left = killed_at(bench, short, draw.uniform(0, 1.1 * whole))
            if left or number % 20 == 0:
                run_again(bench, short)


with tempfile.TemporaryDirectory() as folder:
    (pathlib.Path(folder) / "calls").mkdir()
    before_each_call(runs.Bench(given.protean, pathlib.Path(folder) / "calls"))
    (pathlib.Path(folder) / "random").mkdir()
    at_random(Random(given.protean, pathlib.Path(folder) / "random"))

print(json.dumps(counts))
print(f"{counts['before a call'] + counts['at random'] + counts['in a long solve']} kills, {len(failures)} failed")
if given.json:
    pathlib.Path(given.json).write_text(json.dumps({"counts": counts, "failures": failures}, indent=1) + "\n")
sys.exit(1 if failures else 0)

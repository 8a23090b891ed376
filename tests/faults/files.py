#!/usr/bin/env python3
"""Files while the system fails: each call about a file, one after the other, fails while the command runs.

    files.py PROTEAN LIBRARY [--all] [--json FILE]

LIBRARY is made of file_faults.cpp. Without --all each call fails once, with the errors in turn, and every second one
is shortened, the others are interrupted; with it every call fails with every error, alone and with all calls after it.
Afterwards
  the exit code is 0 where the command did without the call, else 2 or 3, with a message that names a file;
  each output is the old file or the new one, and the new one where the exit code is 0;
  no temporary file is left;
  a call that is shortened or interrupted changes nothing.
Then real ones, where root may mount a small file system of its own: a full one and a read-only one.
"""
import argparse
import errno
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import runs

ERRORS = [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.EACCES]
# The calls that a signal can interrupt (signal(7)).
INTERRUPTIBLE = {"open", "open64", "read", "write", "pread", "pread64", "pwrite", "pwrite64", "close", "fsync", "flock",
                 "ftruncate"}

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("protean")
options.add_argument("library")
options.add_argument("--all", action="store_true")
options.add_argument("--json")
given = options.parse_args()
every = given.all or os.environ.get("PROTEAN_FAULTS") == "all"
library = str(pathlib.Path(given.library).resolve())
failures, counts = [], {}


def complain(run, what, text):
    failures.append(f"{run.name}, {what}: {text}")
    print(f"failed: {failures[-1]}", flush=True)


def check(bench, run, kind, at):
    """One run with one fault. Returns False if the fault was never reached."""
    bench.fresh(run)
    what = f"call {at}, {kind}"
    try:
        done = bench.execute(run, library=library, at=at, kind=kind)
    except subprocess.TimeoutExpired:
        complain(run, what, f"it hangs in or after {bench.fault_of_log()}")
        return True
    call = bench.fault_of_log()
    if call is None:
        return kind == "short" and at <= len(bench.log.read_text().splitlines())
    what = f"call {at} ({call}), {kind}"
    counts[run.name] = counts.get(run.name, 0) + 1
    harmless = kind == "short" or (kind == str(errno.EINTR) and call in INTERRUPTIBLE)
    if done.returncode not in run.codes and (harmless or done.returncode not in (2, 3)):
        complain(run, what, f"exit {done.returncode}: {done.stderr.strip()}")
    names = [*run.outputs, *run.words, *(path.name for path in bench.inputs.iterdir())]
    if done.returncode in (2, 3) and not any(name in done.stderr for name in names):
        complain(run, what, f"the message names no file: {done.stderr.strip()}")
    for name in run.outputs:
        if wrong := bench.wrong_output(run, name):
            complain(run, what, wrong)
        path = bench.here / name
        if done.returncode in run.codes and (not path.exists() or path.read_bytes() == runs.OLD):
            complain(run, what, f"exit {done.returncode}, but {name} was not written")
    # Where nothing can be removed any more, nothing is.
    if unknown := bench.unknown_files(run, kind.startswith("from:")):
        complain(run, what, f"left behind: {unknown}")
    return True


def injected(bench):
    for run in runs.RUNS:
        bench.learn(run)
        at = 0
        while True:
            at += 1
            if every:
                kinds = [str(code) for code in ERRORS] + [f"from:{code}" for code in ERRORS]
            else:
                kinds = [f"{'from:' if at % 4 == 0 else ''}{ERRORS[at % len(ERRORS)]}"]
            kinds += ["short", str(errno.EINTR)] if every else ["short" if at % 2 else str(errno.EINTR)]
            if not all([check(bench, run, kind, at) for kind in kinds]):
                break
        print(f"{run.name}: {at - 1} calls, {counts.get(run.name, 0)} runs", flush=True)


MOUNTED = """
set -e
mkdir -p {folder}
mount -t tmpfs -o size={size} tmpfs {folder} 2>&1 || {{ echo "cannot mount"; exit 99; }}
cp -r {inputs}/. {folder}/
cd {folder}
{prepare}
set +e
{command}
code=$?
ls -a {folder} | tr '\\n' ' '
exit $code
"""


def mounted(bench, name, size, prepare, words, code, message):
    """A command on a separate small file system, in a mount namespace that ends with it."""
    folder = bench.folder / "mounted"
    script = MOUNTED.format(folder=folder, size=size, inputs=bench.inputs, prepare=prepare,
                            command=" ".join([bench.protean, *words]))
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=120,
                          env=bench.environment())
    if done.returncode == 99 or "unshare" in done.stderr:
        print(f"not shown here, {name}: {(done.stdout + done.stderr).strip()}")
        return
    run = runs.Run(name, words, [])
    counts[name] = 1
    if done.returncode != code or message not in done.stderr:
        complain(run, "mounted", f"exit {done.returncode}: {done.stderr.strip()}")
    if ".tmp" in done.stdout:
        complain(run, "mounted", f"left behind: {done.stdout}")


with tempfile.TemporaryDirectory() as folder:
    bench = runs.Bench(given.protean, folder)
    injected(bench)
    solve = ["solve", "A.mtx", "--solution", "x.mtx", "--report", "r.json", "--quiet"]
    full = "head -c 1000000 /dev/zero >filler 2>/dev/null || true"
    mounted(bench, "a full disk", "256k", full, solve, 3, "No space left on device; free some space")
    mounted(bench, "a disk that becomes full", "256k", "head -c 100000 /dev/zero >filler",
            ["generate", "poisson-2d", "--set", "matrix.generate.n=100", "-o", "G.mtx", "--quiet"], 3,
            "No space left on device; free some space")
    mounted(bench, "a read-only folder", "1m", f"mount -o remount,ro {folder}/mounted", solve, 2,
            "Read-only file system; choose a folder that may be written to")

print(f"{sum(counts.values())} runs with a fault, {len(failures)} failed")
if given.json:
    pathlib.Path(given.json).write_text(json.dumps({"runs": counts, "failures": failures}, indent=1) + "\n")
sys.exit(1 if failures or not counts else 0)

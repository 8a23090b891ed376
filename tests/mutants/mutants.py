#!/usr/bin/env python3
"""Builds all mutants of tests/mutants/*.json in one build and reports which of them the tests kill.

mutants.py check                 do all mutants fit the sources? (a second; exit status 1 when one does not)
mutants.py build                 copy the sources to build/mutants/tree, put the switches in, build
mutants.py run [--ids 1,5-9]     run the tests on each mutant; goes on where the last run ended
mutants.py report                print the table of docs/results/campaigns.md

See README.md in this folder.
"""
import argparse
import concurrent.futures
import datetime
import os
import pathlib
import shlex
import subprocess
import sys
import threading

import rewrite
import stored
from test_runs import Suite

SOURCE = pathlib.Path(__file__).resolve().parents[2]
RESULTS = SOURCE / "docs" / "results" / "data" / "mutants.json.xz"
PRESET = "cpu-release"


def chosen(mutants, arguments):
    """The mutants that --ids, --from, --to and --room name; all without them."""
    wanted = set()
    for part in filter(None, (arguments.ids or "").split(",")):
        first, _, last = part.partition("-")
        wanted |= set(range(int(first), int(last or first) + 1))
    if unknown := wanted - {m.id for m in mutants} if arguments.ids and "-" not in arguments.ids else None:
        sys.exit(f"there are no mutants {sorted(unknown)}")
    return [m for m in mutants
            if (not arguments.ids or m.id in wanted) and arguments.first <= m.id <= arguments.last
            and (not arguments.room or m.room == arguments.room)]


def copy_sources(tree: pathlib.Path, mutants) -> None:
    """Writes what differs only, so that a build after a small change is a small build."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=SOURCE, check=True, text=True,
                            capture_output=True).stdout.splitlines()
    names = {name for name in listed if (SOURCE / name).is_file()}
    texts = rewrite.apply(mutants, SOURCE, tree / rewrite.SWITCH.relative_to(SOURCE))
    tree.mkdir(parents=True, exist_ok=True)
    for path in [p for p in tree.rglob("*") if p.is_file() or p.is_symlink()]:
        name = path.relative_to(tree)
        if name.parts[0] != "build" and str(name) not in names:
            path.unlink()
    for name in names:
        data = texts[name].encode() if name in texts else (SOURCE / name).read_bytes()
        path = tree / name
        if path.is_file() and path.read_bytes() == data:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod((SOURCE / name).stat().st_mode & 0o777)


def build(arguments, mutants) -> None:
    tree = arguments.folder / "tree"
    copy_sources(tree, mutants)
    through = shlex.split(arguments.through)
    for command in (["cmake", "--preset", PRESET, *arguments.cmake],
                    [*through, "cmake", "--build", "--preset", PRESET, "-j", str(arguments.jobs), "--", "-k", "0"]):
        subprocess.run(command, cwd=tree, check=True)


def commit_of_source() -> str:
    run = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=SOURCE, text=True,
                         capture_output=True, check=False)
    return run.stdout.strip()


def save(results: dict) -> None:
    results["date"] = datetime.date.today().isoformat()
    stored.write(RESULTS, results)


def is_of(result, mutant) -> bool:
    """Whether the mutant was run in the form that it has now."""
    return result is not None and result.get("form") == mutant.form


def run_one(suite: Suite, mutant, known) -> dict:
    result = {"id": mutant.id, "form": mutant.form, "room": mutant.room, "file": mutant.file, "breaks": mutant.breaks}
    result |= suite.judge(mutant.id, mutant.first, known)
    if result["status"] == "survived" and mutant.equivalent:
        result["equivalent"] = mutant.equivalent
    return result


def run(arguments, mutants) -> int:
    suite = Suite(arguments.folder / "tree" / "build" / PRESET, shlex.split(arguments.through), arguments.quick)
    results = stored.read(RESULTS)
    before = {r["id"]: r for r in results["mutants"]}
    results["commit"] = commit_of_source()
    if not suite.baseline(arguments.folder / "baseline.json", arguments.jobs, arguments.again):
        return 1
    # What was killed before is tried first on the test that killed it. Results of mutants that are gone are dropped.
    numbers = {m.id for m in mutants}
    results["mutants"] = [r for r in results["mutants"] if r["id"] in numbers]
    todo = [m for m in chosen(mutants, arguments)
            if arguments.all or not is_of(before.get(m.id), m) or before[m.id]["status"] != "killed"]
    print(f"{len(todo)} of {len(mutants)} mutants to run", flush=True)
    lock = threading.Lock()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        futures = [pool.submit(run_one, suite, m, before.get(m.id, {}).get("by")) for m in todo]
        for done in concurrent.futures.as_completed(futures):
            result = done.result()
            with lock:
                results["mutants"] = [r for r in results["mutants"] if r["id"] != result["id"]] + [result]
                save(results)
            print(f"{result['id']:>5} {result['status']:<9} {result['seconds']:>7.1f} s  "
                  f"{result.get('by', '')} {result.get('how', '')}  [{result['breaks']}]", flush=True)
    report(mutants)
    return 0


def score(rows):
    killed = sum(r["status"] == "killed" for r in rows)
    return f"{killed} of {len(rows)}" + (f" ({100 * killed / len(rows):.1f} %)" if rows else "")


def report(mutants) -> None:
    """The score by room, what survived and why."""
    results = stored.read(RESULTS)
    of_id, by_id = {m.id: m for m in mutants}, {r["id"]: r for r in results["mutants"]}
    rows = [r | {"room": of_id[n].room, "file": of_id[n].file} for n, r in sorted(by_id.items())
            if n in of_id and is_of(r, of_id[n])]
    changed = [m.id for m in mutants if m.id in by_id and not is_of(by_id[m.id], m)]
    missing = [m.id for m in mutants if m.id not in by_id]
    print(f"The tests kill **{score(rows)}** ({results['date']}, commit {results['commit']}, CPU build).")
    if missing:
        print(f"Not run yet: {', '.join(map(str, missing))}.")
    if changed:
        print(f"Changed with the code since they were run, and not counted: {', '.join(map(str, changed))}.")
    rooms = sorted({r["room"] for r in rows})
    print("\n| " + " | ".join(rooms) + " |\n" + "|--:" * len(rooms) + "|")
    print("| " + " | ".join(score([r for r in rows if r["room"] == room]).split(" (")[0] for room in rooms) + " |\n")
    reasons = {m.id: m.equivalent for m in mutants}
    for r in rows:
        if r["status"] != "killed":
            print(f"- {r['id']}, `{r['file']}`, survived: {r['breaks']} {reasons.get(r['id']) or 'No test sees it.'}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("check", "build", "run", "report"))
    parser.add_argument("--ids", help="numbers and ranges: 17,201-230")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the lowest number to run")
    parser.add_argument("--to", dest="last", type=int, default=10**9, help="the highest number to run")
    parser.add_argument("--room", help="only mutants of this file of tests/mutants, without .json")
    parser.add_argument("--all", action="store_true", help="run those that were killed before, too")
    parser.add_argument("--again", action="store_true", help="run all tests without a mutant once more")
    parser.add_argument("--quick", action="store_true", help="only the tests that a mutant names, not the whole suite")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=pathlib.Path, default=SOURCE / "build" / "mutants")
    parser.add_argument("--through", default="", help="a command in front of each build and test, such as 'nice'")
    parser.add_argument("--cmake", nargs=1, action="extend", default=[], help="a further argument of cmake")
    arguments = parser.parse_args()
    arguments.folder = arguments.folder.resolve()
    try:
        mutants = rewrite.read_mutants()
        if arguments.command == "check":
            rewrite.apply(mutants, SOURCE, rewrite.SWITCH)
            print(f"{len(mutants)} mutants fit the sources")
            return 0
        if arguments.command == "build":
            build(arguments, mutants)
            return 0
        if arguments.command == "report":
            report(mutants)
            return 0
        return run(arguments, mutants)
    except rewrite.Refused as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

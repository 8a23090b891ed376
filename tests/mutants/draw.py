#!/usr/bin/env python3
"""Mutants drawn by a program: how many of them do the tests see?

draw.py pool                     all mutants of universalmutator's rules, in the order of a seed;
                             writes drawn/pool.json.xz
draw.py draw                     the first 500 of them that compile; writes drawn/mutants.json.xz
draw.py check                    do the drawn mutants still fit the sources? (a second)
draw.py build                    copy the sources, put the switches in, build
draw.py run [--seconds 330]      the tests on each mutant; goes on where the last run ended
draw.py all [--seconds 520]      build and run, all within that time
draw.py report                   print the table of docs/results/campaigns.md

See README.md in this folder.
"""
import argparse
import collections
import contextlib
import dataclasses
import fnmatch
import hashlib
import io
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import time

import pieces
import stored
import switched
from drawn_runs import DrawnSuite, run_all
from rewrite import SWITCH, Refused

SOURCE = pathlib.Path(__file__).resolve().parents[2]
POOL = SOURCE / "tests" / "mutants" / "drawn" / "pool.json.xz"
DRAWN = POOL.with_name("mutants.json.xz")
LISTENER = SOURCE / "tests" / "mutants" / "reach.hpp"
PRESET = "cpu-release"
# What a room is here. Headers of a room belong to it; sources of the device (.cu, .cuh) are not changed.
ROOMS = {
    "preconditioners": ["preconditioners/*"], "solvers": ["solvers/*"], "operators": ["operators/*"],
    "policy": ["operators/policy/*"], "elements": ["operators/elements/*"], "c": ["interfaces/c/*"],
    "systems": ["systems/*"], "ordering": ["core/ordering*", "core/adjacency.hpp"],
    "slices": ["formats/engines/slices/slice_view.hpp", "formats/engines/slices.*"],
}
# Without optional libraries, so that the build is the same on each machine. A mutant may well deserve a warning.
OPTIONS = ["-DPROTEAN_CUDA=OFF", "-DPROTEAN_KOKKOS=OFF", "-DPROTEAN_MKL=OFF", "-DPROTEAN_METIS=OFF",
           "-DPROTEAN_HYPRE=OFF", "-DPROTEAN_WARNINGS_AS_ERRORS=OFF", "-DCMAKE_CXX_FLAGS=-w"]
FIRST_ID = 10000
NOT_SOURCES = {"build", ".git", ".device", "shared"}
TESTS = ["core", "formats", "operators", "policy", "elements", "element_start", "order_change", "preconditioners",
         "solvers", "embedding", "every_format", "auto_switcher", "watch", "systems", "life", "apps",
         "fem"]


def git(*words) -> str:
    """What git says; nothing in a copy without a repository."""
    if not shutil.which("git"):
        return ""
    return subprocess.run(["git", *words], cwd=SOURCE, check=False, text=True, capture_output=True).stdout.strip()


def listed():
    """Sources and headers of the rooms that git knows: [(room, file)] by file."""
    names, found = git("ls-files").splitlines(), []
    for name in sorted(n for n in names if n.endswith((".cpp", ".hpp"))):
        rooms = [room for room, patterns in ROOMS.items() if any(fnmatch.fnmatchcase(name, p) for p in patterns)]
        if rooms:
            found.append((rooms[-1], name))
    return found


def lines_of_directives(text: str):
    begins = [0] + [m.end() for m in re.finditer("\n", text)]
    inside = set()
    for m in pieces.DIRECTIVE.finditer(text):
        inside |= {n + 1 for n, begin in enumerate(begins) if m.start() <= begin < max(m.end(), m.start() + 1)}
    return inside


def all_mutants(counts: collections.Counter):
    """[(room, file, line, old text, new text, rule)] of all files, in an order that depends on nothing else."""
    from universalmutator import mutator  # needed for drawing only
    pool = []
    for room, file in listed():
        text = (SOURCE / file).read_text()
        source, directives = pieces.Source(text), lines_of_directives(text)
        if source.broken:
            counts["files whose brackets do not match"] += 1
            continue
        lines = text.splitlines(keepends=True)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            found = mutator.mutants_regexp(lines, ["universal.rules", "cpp.rules", "c_like.rules"],
                                           ignorePatterns=[], ignoreStringOnly=True)
        skipped = re.search(r"SKIPPED (\d+) MUTANTS ONLY", said.getvalue())
        counts["text of messages only"] += int(skipped[1]) if skipped else 0
        for line, new, (rule, _), _ in found:
            if line in directives:
                counts["lines of the preprocessor"] += 1
            elif pieces.is_message(lines[line - 1], new):
                counts["text of messages only"] += 1
            elif pieces.change_of(source, line, new) is None:
                counts["white space and comments only"] += 1
            else:
                pool.append((room, file, line, lines[line - 1].rstrip("\n"), new, rule.strip("\n")))
    return sorted(pool)


def copy_sources(tree: pathlib.Path, mutants):
    """Writes what differs only. Returns ({file: rewritten text}, mutants that do not fit)."""
    names = git("ls-files", "-co", "--exclude-standard").splitlines()
    if not names:  # a copy without a repository
        names = [str(p.relative_to(SOURCE)) for folder in SOURCE.iterdir() if folder.name not in NOT_SOURCES
                 for p in ([folder] if folder.is_file() else folder.rglob("*"))]
    names = sorted(name for name in names if (SOURCE / name).is_file())
    texts, refused = {}, []
    for file in sorted({m.file for m in mutants}):
        if not (SOURCE / file).is_file():
            refused += [m for m in mutants if m.file == file]
            continue
        texts[file], more = switched.rewritten((SOURCE / file).read_text(), [m for m in mutants if m.file == file],
                                               tree / SWITCH.relative_to(SOURCE))
        refused += more
    crash = "tests/support/crash_trace.cpp"
    extra = f'\n#include "{tree / LISTENER.relative_to(SOURCE)}"\n'
    for name in names:
        data = texts[name].encode() if name in texts else (SOURCE / name).read_bytes()
        data += extra.encode() if name == crash else b""
        path = tree / name
        if path.is_file() and path.read_bytes() == data:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod((SOURCE / name).stat().st_mode & 0o777)
    return texts, refused


def configure(arguments) -> None:
    if arguments.keep_configuration:
        return
    subprocess.run(["cmake", "--preset", PRESET, *OPTIONS, *arguments.cmake], cwd=arguments.tree, check=True,
                   stdout=subprocess.DEVNULL)


def ninja(arguments, *targets):
    """(status, output) of a build that goes on after errors."""
    command = [*shlex.split(arguments.through), "ninja", "-C", str(arguments.tree / "build" / PRESET), "-k", "0", "-j",
               str(arguments.jobs), *targets]
    done = subprocess.run(command, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False)
    return done.returncode, done.stdout


class Draw:
    """Judges drawn mutants by the compiler, in rounds: one whose piece is refused takes its next larger piece."""

    def __init__(self, arguments, pool):
        self.arguments, self.pool = arguments, pool
        self.sources, self.verdicts, self.pieces = {}, {}, {}
        self.state = arguments.folder / "draw-state.json"
        stamp = hashlib.sha256(repr(pool).encode()).hexdigest()
        saved = json.loads(self.state.read_text()) if self.state.exists() else {}
        self.stamp = stamp
        if saved.get("stamp") == stamp:
            self.verdicts = {int(k): tuple(v) for k, v in saved["verdicts"].items()}

    def save(self) -> None:
        self.state.write_text(json.dumps({"stamp": self.stamp, "verdicts": self.verdicts}))

    def source(self, file: str) -> pieces.Source:
        if file not in self.sources:
            self.sources[file] = pieces.Source((SOURCE / file).read_text() if (SOURCE / file).is_file() else "")
        return self.sources[file]

    def line(self, source: pieces.Source, number: int, text: str):
        """Where the line is now: the nearest one of this text; None where there is none."""
        lines = source.text.splitlines()
        same = [n for n in range(1, len(lines) + 1) if lines[n - 1] == text]
        return min(same, key=lambda n: abs(n - number), default=None)

    def drawn(self, position: int):
        """The mutant at this place of the draw with the piece it has now; None where it has none left."""
        room, file, number, original, text, rule = self.pool[position]
        source = self.source(file)
        line = self.line(source, number, original)
        change = pieces.change_of(source, line, text) if line else None
        if position not in self.pieces:
            self.pieces[position] = list(pieces.pieces_for(source, change)) if change else []
        at = self.verdicts.get(position, ("open", 0))[1]
        while at < len(self.pieces[position]):
            mutant = switched.Drawn(FIRST_ID + position, room, file, line, rule, original.strip(), text.strip())
            try:
                return switched.anchored(source, mutant, self.pieces[position][at], change)
            except Refused:
                at += 1
                self.verdicts[position] = ("open", at)
        return None

    def judge(self, positions) -> None:
        """Gives each position a verdict: valid, no piece, refused, absent (not in a host build), gone (the line is
        not there any more)."""
        compiler = None
        for turn in range(40):
            todo = [p for p in positions if self.verdicts.get(p, ("open", 0))[0] == "open"]
            mutants, had = {}, {}
            for p in todo:
                mutant = self.drawn(p)
                if mutant is None:
                    gone = self.line(self.source(self.pool[p][1]), self.pool[p][2], self.pool[p][3]) is None
                    self.verdicts[p] = ("gone" if gone else "refused" if self.pieces[p] else "no piece", 0)
                else:
                    mutants[mutant.id] = mutant
            if not mutants:
                break
            texts, crossing = copy_sources(self.arguments.tree, list(mutants.values()))
            for m in crossing:  # another one is in its way: alone in the next round
                mutants.pop(m.id)
            if compiler is None:
                configure(self.arguments)
                status, out = ninja(self.arguments, "protean_room_headers")
                if status:
                    sys.exit(out)
                compiler = switched.Compiler(self.arguments.tree, self.arguments.tree / "build" / PRESET)
            users = {file: compiler.users(file) for file in texts}
            run = sorted({u for us in users.values() for u in us})
            print(f"round {turn}: {len(mutants)} mutants in {len(texts)} files, {len(run)} sources", flush=True)
            results = dict(zip(run, switched.in_parallel(
                self.arguments.jobs, lambda f: (compiler.run(f, "-fsyntax-only"), compiler.active(f)), run)))
            active = {n for _, numbers in results.values() for n in numbers}
            guilty, lost = set(), {}
            for user, ((status, _, errors), _) in results.items():
                blamed, unknown = compiler.blamed(errors, texts)
                guilty |= blamed
                if status and not blamed:
                    lost[user] = errors
            for file, us in users.items():
                mine = [m for m in mutants.values() if m.file == file]
                failed = any(results[u][0][0] for u in us)
                # An error may hide others: who is not blamed is asked again, until a round has no error.
                for m in mine:
                    p = m.id - FIRST_ID
                    at = self.verdicts.get(p, ("open", 0))[1]
                    if not us or m.id not in active:
                        self.verdicts[p] = ("absent", at)
                    elif m.id in guilty:
                        self.verdicts[p] = ("open", at + 1)
                    elif not failed:
                        self.verdicts[p] = ("valid", at)
                if any(u in lost for u in us) and not any(m.id in guilty for m in mine):
                    self.alone(compiler, file, us, mine)
            self.save()
        for p in positions:
            if self.verdicts.get(p, ("open", 0))[0] == "open":
                self.verdicts[p] = ("refused", 0)

    def alone(self, compiler, file, users, mutants) -> None:
        """Messages that point at no mutant: halves, until those that do not compile are found."""
        mutants = [m for m in mutants if self.verdicts.get(m.id - FIRST_ID, ("open", 0))[0] == "open"]
        print(f"  {file}: {len(mutants)} by halves", flush=True)

        def look(some) -> None:
            copy_sources(self.arguments.tree, some)
            bad = any(compiler.run(u, "-fsyntax-only")[0] for u in users)
            if bad and len(some) > 1:
                look(some[:len(some) // 2])
                look(some[len(some) // 2:])
                return
            for m in some:
                at = self.verdicts.get(m.id - FIRST_ID, ("open", 0))[1]
                self.verdicts[m.id - FIRST_ID] = ("open", at + 1) if bad else ("valid", at)

        if mutants:
            look(mutants)


def pool(arguments) -> int:
    from importlib.metadata import version
    dropped = collections.Counter()
    mutants = all_mutants(dropped)
    by_room = collections.Counter(m[0] for m in mutants)
    random.Random(arguments.seed).shuffle(mutants)
    head = {"seed": arguments.seed, "universalmutator": version("universalmutator"),
            "commit": git("describe", "--always", "--abbrev=12"), "mutants_of_lines": len(mutants),
            "by_room": dict(sorted(by_room.items())), "dropped_before": dict(dropped)}
    POOL.parent.mkdir(exist_ok=True)
    lines = [json.dumps(m, ensure_ascii=False) for m in mutants[:arguments.keep]]
    stored.compress(POOL, json.dumps(head)[:-1] + ', "first": [\n' + ",\n".join(lines) + "\n]}\n")
    print(f"{len(mutants)} mutants of lines {head['by_room']}; dropped before: {dict(dropped)}")
    return 0


def draw(arguments) -> int:
    head = stored.read(POOL)
    mutants = [tuple(m) for m in head.pop("first")]
    if arguments.mutants.exists() and not arguments.again:
        have = stored.read(arguments.mutants)
        if all(have.get(key) == value for key, value in head.items()) and len(have["mutants"]) >= arguments.count:
            print(f"{arguments.mutants} has them already")
            return 0
    arguments.folder.mkdir(parents=True, exist_ok=True)
    judge, size, taken = Draw(arguments, mutants), 0, []
    wanted = arguments.count + arguments.reserve
    while len(taken) < wanted and size < len(mutants):
        size = min(len(mutants), size + (arguments.batch if size == 0 else max(60, 4 * (wanted - len(taken)))))
        judge.judge(range(size))
        taken = [p for p in range(size) if judge.verdicts[p][0] == "valid"]
        print(f"{len(taken)} valid of {size} drawn: "
              f"{dict(collections.Counter(v[0] for p, v in judge.verdicts.items() if p < size))}", flush=True)
    taken = taken[:wanted]
    last = taken[arguments.count - 1] if len(taken) >= arguments.count else size - 1
    verdicts = collections.Counter(judge.verdicts[p][0] for p in range(last + 1))
    document = head | {"wanted": arguments.count, "drawn": last + 1, "verdicts": dict(verdicts),
                       "mutants": [dataclasses.asdict(judge.drawn(p)) for p in taken]}
    arguments.mutants.parent.mkdir(parents=True, exist_ok=True)
    stored.compress(arguments.mutants, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return 0


def read_drawn(arguments):
    document = stored.read(arguments.mutants)
    mutants = [switched.Drawn(**entry) for entry in document["mutants"]]
    if arguments.ids:
        wanted = {int(n) for n in arguments.ids.split(",")}
        mutants = [m for m in mutants if m.id in wanted]
    return document, mutants


def build(arguments, document, mutants):
    """Builds the tests with all switches. Those that a compiler refuses after all are left out: returns the mutants
    that are in the build."""
    refused = []
    for _ in range(4):
        texts, gone = copy_sources(arguments.tree, mutants)
        refused += gone
        mutants = [m for m in mutants if m not in gone]
        configure(arguments)
        status, out = ninja(arguments, *arguments.targets.split(","))
        if status == 0:
            break
        compiler = switched.Compiler(arguments.tree, arguments.tree / "build" / PRESET)
        blamed, _ = compiler.blamed(out, texts)
        print(f"the compiler refuses {sorted(blamed)}", flush=True)
        if not blamed:
            print(out[-6000:])
            sys.exit("the build fails")
        refused += [m for m in mutants if m.id in blamed]
        mutants = [m for m in mutants if m.id not in blamed]
    else:
        sys.exit("the build fails again and again")
    kept = sorted(mutants, key=lambda m: m.id)[:document["wanted"]]
    (arguments.tree / "in-build.json").write_text(json.dumps(
        {"kept": [m.id for m in kept], "refused": sorted({m.id for m in refused})}))
    print(f"{len(kept)} mutants in the build, refused there: {sorted({m.id for m in refused})}", flush=True)
    return kept


def in_build(arguments, mutants):
    kept = set(json.loads((arguments.tree / "in-build.json").read_text())["kept"])
    return [m for m in mutants if m.id in kept]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("pool", "draw", "check", "build", "run", "all", "report"))
    parser.add_argument("--seed", type=int, default=20261125)
    parser.add_argument("--keep", type=int, default=3000, help="how many of the pool to write down")
    parser.add_argument("--count", type=int, default=500, help="valid mutants to draw")
    parser.add_argument("--reserve", type=int, default=20, help="more, for those that a full build refuses")
    parser.add_argument("--batch", type=int, default=2100, help="how many to draw at first")
    parser.add_argument("--mutants", type=pathlib.Path, default=DRAWN)
    parser.add_argument("--results", type=pathlib.Path,
                        default=SOURCE / "docs" / "results" / "data" / "drawn-mutants.json.xz")
    parser.add_argument("--ids", help="only these: 10003,10017")
    parser.add_argument("--again", action="store_true", help="run those that were killed before, too")
    parser.add_argument("--suite", choices=("reaching", "whole"), default="reaching",
                        help="the cases of GoogleTest that run the mutant's code, or all tests of ctest")
    parser.add_argument("--seconds", type=float, default=10**9, help="time for all; what is not judged then is open")
    parser.add_argument("--each", type=float, default=10**9, help="seconds of tests for one mutant at most")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--threads", type=int, default=2, help="OMP_NUM_THREADS of a test")
    parser.add_argument("--folder", type=pathlib.Path, default=SOURCE / "build" / "mutants")
    parser.add_argument("--tree", type=pathlib.Path, help="the copy with the switches (FOLDER/drawn-tree)")
    parser.add_argument("--targets", default="protean_command," + ",".join(f"test_{name}" for name in TESTS),
                        help="what to build")
    parser.add_argument("--tests", default=".*", help="names of the tests of ctest to run, a regular expression")
    parser.add_argument("--keep-configuration", action="store_true", help="the build folder is configured already")
    parser.add_argument("--through", default="", help="a command in front of each build and test, such as 'nice'")
    parser.add_argument("--cmake", nargs=1, action="extend", default=[], help="a further argument of cmake")
    arguments = parser.parse_args()
    begin = time.monotonic()
    arguments.folder = arguments.folder.resolve()
    arguments.tree = (arguments.tree or arguments.folder / "drawn-tree").resolve()
    if arguments.command == "pool":
        return pool(arguments)
    if arguments.command == "draw":
        return draw(arguments)
    document, mutants = read_drawn(arguments)
    if arguments.command == "check":
        gone = []
        for file in sorted({m.file for m in mutants}):
            of_file = [m for m in mutants if m.file == file]
            path = SOURCE / file
            gone += switched.rewritten(path.read_text(), of_file, SWITCH)[1] if path.is_file() else of_file
        print(f"{len(mutants) - len(gone)} of {len(mutants)} drawn mutants fit the sources")
        return 0
    if arguments.command == "report":
        from drawn_report import report
        return report(arguments, document, mutants)
    if arguments.command in ("build", "all"):
        build(arguments, document, mutants)
        print(f"built after {time.monotonic() - begin:.0f} s", flush=True)
    if arguments.command == "build":
        return 0
    suite = DrawnSuite(arguments.tree / "build" / PRESET, shlex.split(arguments.through), arguments.threads,
                       arguments.tests)
    return run_all(suite, in_build(arguments, mutants), arguments, begin + arguments.seconds,
                   git("describe", "--always", "--dirty", "--abbrev=12"))


if __name__ == "__main__":
    sys.exit(main())

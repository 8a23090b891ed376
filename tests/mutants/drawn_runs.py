"""Runs the tests on drawn mutants. First all tests without a mutant, which notes for each case of GoogleTest which
mutants' code it runs; then each mutant is tried on the cases that run its code, the quickest first. Standard library
only.
"""
import collections
import concurrent.futures
import contextlib
import dataclasses
import datetime
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time

import stored
from test_runs import REPEATS, TIMED, TIMES_BASELINE, Outcome, Suite

LEAST_SECONDS = 20  # for cases; a whole test of ctest has test_runs.LEAST_SECONDS
LIMITED = "ulimit -c 0; ulimit -d 25000000; ulimit -f 8000000; "
MARKS = 65536
# Seconds of cases that are tried in one process, and how many of these processes take quick cases first.
CHUNK, QUICK = 4.0, 0.25
FILTER_CHARACTERS = 60000
SHARDS = {"apps": 8, "solvers": 8, "formats": 4, "life": 4, "core": 4, "operators": 2, "formats_multi": 4,
          "elements": 2, "formats_guarded_shapes": 4, "formats_guarded_sets": 4, "formats_guarded": 2,
          "order_change": 4, "preconditioners": 2, "embedding": 2, "every_format_host": 2}
# Which tests belong to a room: they are tried first.
FIRST = {
    "preconditioners": ["preconditioners"], "solvers": ["solvers", "auto_switcher", "embedding"],
    "operators": ["operators", "element_start", "order_change"], "policy": ["policy", "operators", "auto_switcher"],
    "elements": ["elements", "element_start"], "c": ["embedding", "life"],
    "systems": ["systems", "embedding", "apps"], "ordering": ["core", "order_change"],
    "slices": ["format_sell", "formats"],
}


@dataclasses.dataclass
class Case:
    test: str  # of ctest
    name: str
    seconds: float


class DrawnSuite(Suite):
    def __init__(self, build: pathlib.Path, through: list, threads: int, only: str):
        super().__init__(build, through, False)
        self.tests = {name: test for name, test in self.tests.items() if re.fullmatch(only, name)}
        self.threads = threads
        self.reaching = collections.defaultdict(list)  # mutant: [Case]
        self.cases, self.failing = 0, []

    def environment(self, test, mutant: int, more: dict) -> dict:
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads), **test.environment, **more}
        for name in ("PROTEAN_MUTANT", "PROTEAN_MUTANT_REACHED"):
            environment.pop(name, None) if name not in more else None
        if mutant:
            environment["PROTEAN_MUTANT"] = str(mutant)
        return environment

    def run(self, test, mutant: int, allowed: float, more=None) -> Outcome:
        """Programs that a test has started end with it, and none of them takes all memory or disk."""
        command = [*test.command, "--gtest_fail_fast"] if test.is_gtest and mutant else test.command
        with tempfile.TemporaryFile("w+", errors="replace") as file:
            words = [*self.through, "bash", "-c", LIMITED + TIMED, "timed", f"{allowed:.0f}", *command]
            process = subprocess.Popen(words, cwd=test.folder, env=self.environment(test, mutant, more or {}),
                                       stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                                       start_new_session=True)
            process.wait()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            file.seek(0)
            output = file.read(8_000_000)
        times = re.search(r"^@time (\S+) (\S+)$", output, re.MULTILINE)
        seconds = float(times[2]) - float(times[1]) if times else 0
        failed = re.findall(r"^\[  FAILED  \] ([^\s,(]+)", output, re.MULTILINE)
        begun = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
        status = process.returncode
        if status == 0:
            return Outcome("passed", "", seconds, output)
        if test.skip_status and status == test.skip_status:
            return Outcome("skipped", "", seconds, output)
        how = "timeout" if status in (124, 137) else "crashed" if status > 128 or status < 0 else "failed"
        case = failed[0] if how == "failed" and failed else begun[-1] if begun else ""
        return Outcome(how, case, seconds, output)

    def reach(self, folder: pathlib.Path, jobs: int, again: bool) -> None:
        """All cases without a mutant: what they run, and how long they take. Those that fail are tried on no mutant."""
        folder.mkdir(parents=True, exist_ok=True)
        tests = [test for test in self.tests.values() if test.is_gtest and pathlib.Path(test.command[0]).exists()]
        todo = []
        for test in tests:
            for shard in range(SHARDS.get(test.name, 1)):
                todo.append((test, shard, folder / f"{test.name}.{shard}"))
        begin = time.monotonic()

        def one(item):
            test, shard, marks = item
            cases = marks.with_name(marks.name + ".cases")
            done = marks.with_name(marks.name + ".done")
            if done.exists() and float(done.read_text()) == self.stamp(test) and not again:
                return
            marks.write_bytes(bytes(MARKS))
            cases.unlink(missing_ok=True)
            outcome = self.run(test, 0, 4 * test.allowed, {
                "PROTEAN_MUTANT_REACHED": str(marks), "GTEST_TOTAL_SHARDS": str(SHARDS.get(test.name, 1)),
                "GTEST_SHARD_INDEX": str(shard)})
            if outcome.how in ("crashed", "timeout"):
                self.failing.append(f"{test.name}: {outcome.case} {outcome.how}")
                print(f"without a mutant {test.name} {outcome.how} {outcome.case}\n{outcome.output[-1500:]}",
                      flush=True)
            done.write_text(str(self.stamp(test)))

        todo.sort(key=lambda item: (-SHARDS.get(item[0].name, 1), item[0].name))
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            list(pool.map(one, todo))
        for test, _, marks in todo:
            cases = marks.with_name(marks.name + ".cases")
            for line in cases.read_text().splitlines() if cases.exists() else []:
                name, milliseconds, *numbers = line.split()
                self.cases += 1
                if numbers[-1:] == ["failed"]:
                    self.failing.append(f"{test.name}: {name}")
                    continue
                for number in numbers:
                    self.reaching[int(number)].append(Case(test.name, name, int(milliseconds) / 1000))
        print(f"{self.cases} cases without a mutant in {time.monotonic() - begin:.0f} s; they run the code of "
              f"{len(self.reaching)} mutants; not used, they fail: {self.failing}", flush=True)

    def chunks(self, mutant):
        """[(test with a filter, seconds without a mutant)]: cases that run its code, quick ones first, and those of
        its room before others."""
        cases = self.reaching.get(mutant.id, [])
        first = FIRST.get(mutant.room, [])
        rank = lambda name: first.index(name) if name in first else len(first)  # noqa: E731
        groups = collections.defaultdict(list)
        for case in cases:
            groups[(case.seconds > QUICK, rank(case.test), case.test)].append(case)
        quick, slow = [], []
        for key in sorted(groups):
            chunk, seconds, size = [], 0.0, 0
            for case in sorted(groups[key], key=lambda c: c.seconds):
                if chunk and (seconds + case.seconds > CHUNK or size + len(case.name) > FILTER_CHARACTERS):
                    (slow if key[0] else quick).append((key[2], chunk, seconds))
                    chunk, seconds, size = [], 0.0, 0
                chunk.append(case.name)
                seconds, size = seconds + case.seconds, size + len(case.name) + 1
            (slow if key[0] else quick).append((key[2], chunk, seconds))
        slow.sort(key=lambda entry: (rank(entry[0]) == len(first), entry[2]))
        return [(self.tests[name].with_filter(":".join(chunk)), seconds) for name, chunk, seconds in quick + slow]

    def judge_reaching(self, mutant, known: str, until: float, each: float) -> dict:
        """killed, survived (all cases that run its code pass), unreached (none does) or open (no time)."""
        spent, tried = 0.0, 0
        chunks = self.chunks(mutant)
        name, _, case = (known or "").partition(": ")
        if case and name in self.tests:
            chunks.insert(0, (self.tests[name].with_filter(case), 1.0))
        reaching = len(self.reaching.get(mutant.id, []))
        for test, seconds in chunks:
            left = until - time.monotonic()
            if left < 2 or spent > each:
                return {"status": "open", "seconds": round(spent, 2), "cases": reaching, "tried": tried}
            allowed = max(LEAST_SECONDS, TIMES_BASELINE * seconds)
            outcome = self.run(test, mutant.id, min(allowed, left))
            spent += outcome.seconds
            tried += 1
            if outcome.how == "timeout" and left < allowed:
                return {"status": "open", "seconds": round(spent, 2), "cases": reaching, "tried": tried}
            if not outcome.good and self.sure(test, mutant.id, outcome, allowed):
                by = f"{test.name}: {outcome.case}" if outcome.case else test.name
                return {"status": "killed", "by": by, "how": outcome.how, "seconds": round(spent, 2), "cases": reaching}
        status = "survived" if reaching else "unreached"
        return {"status": status, "seconds": round(spent, 2), "cases": reaching, "suite": "reaching"}

    def sure(self, test, mutant: int, outcome: Outcome, allowed: float) -> bool:
        """It must pass without the mutant at this moment, and fail with it once more: a busy machine kills nothing."""
        once = test.with_filter(outcome.case) if outcome.case else test
        if not self.run(once, 0, allowed).good:
            return False
        if outcome.how == "timeout":
            return True
        # A case may need those before it, so the whole chunk is tried, too.
        return any(not self.run(again, mutant, allowed).good for again in [once] * (REPEATS - 1) + [test])

    def judge_whole(self, mutant, known: str) -> dict:
        """The whole suite of ctest, of which `baseline` has been called."""
        first = [name for name in FIRST.get(mutant.room, []) if name in self.tests]
        return {**self.judge(mutant.id, first, known), "suite": "whole"}


def run_all(suite: DrawnSuite, mutants, arguments, until: float, commit: str) -> int:
    path = arguments.results
    path.parent.mkdir(parents=True, exist_ok=True)
    document = stored.read(path)
    before = {r["id"]: r for r in document["mutants"]}
    document |= {"commit": commit or document.get("commit", ""), "date": datetime.date.today().isoformat(),
                 "processors": os.cpu_count()}
    whole = arguments.suite == "whole"
    if whole:
        if not suite.baseline(arguments.folder / "drawn-baseline.json", arguments.jobs, False):
            return 1
    else:
        suite.reach(arguments.tree / "reach", arguments.jobs, False)
        document["cases"], document["failing_without_a_mutant"] = suite.cases, suite.failing
    done = {"killed"} if whole else {"killed", "survived", "unreached"}
    todo = [m for m in mutants if arguments.again or before.get(m.id, {}).get("status") not in done]
    # Those that many quick cases run are judged soonest.
    cost = {m.id: sum(c.seconds for c in suite.reaching.get(m.id, [])) for m in todo}
    todo.sort(key=lambda m: cost[m.id])
    print(f"{len(todo)} of {len(mutants)} mutants to run", flush=True)
    lock = threading.Lock()

    def one(mutant):
        known = before.get(mutant.id, {}).get("by")
        if time.monotonic() > until - 2:
            result = {"status": "open", "seconds": 0}
        elif whole:
            result = suite.judge_whole(mutant, known)
        else:
            result = suite.judge_reaching(mutant, known, until, arguments.each)
        result = {"id": mutant.id, "room": mutant.room, "file": mutant.file, "line": mutant.line,
                  "original": mutant.original, "mutated": mutant.mutated, "rule": mutant.rule} | result
        with lock:
            kept = [r for r in document["mutants"] if r["id"] != mutant.id]
            document["mutants"] = kept + [result]
            stored.write(path, document)
            print(f"{mutant.id:>6} {result['status']:<9} {result['seconds']:>7.1f} s  {result.get('by', '')}"
                  f" {result.get('how', '')}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(one, todo))
    counts = collections.Counter(r["status"] for r in document["mutants"])
    print(dict(counts), flush=True)
    return 0

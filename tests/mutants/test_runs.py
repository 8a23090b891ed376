"""Runs the tests of a build one by one, with or without a mutant, and finds out what kills it."""
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys

# The time a test may take: many times what it takes without a mutant, since the machine may be busy.
LEAST_SECONDS, TIMES_BASELINE = 60, 15
REPEATS = 4  # of a test that failed once, until it fails once more
# Notes the time of the command itself: what stands in front of it may have to wait.
TIMED = 'begin=$EPOCHREALTIME; timeout -k 5 "$@"; status=$?; echo "@time $begin $EPOCHREALTIME"; exit $status'
# These tests read sources. A public header with a mutant includes the switch of the mutants, which the first refuses;
# code that has a switch already takes no other one.
READS_SOURCES = ("public-headers-compile-alone", "mutants-fit-the-sources")
PROGRAMS = ("examples/assembled", "examples/elements", "examples/callback", "examples/c_api", "build/consumer")


@dataclasses.dataclass
class Test:
    name: str
    command: list
    environment: dict
    folder: str
    skip_status: int = 0
    allowed: float = 600
    needs: list = dataclasses.field(default_factory=list)  # tests that must have been run before

    @property
    def is_gtest(self) -> bool:
        return any(part.startswith("--gtest_filter") for part in self.command)

    def with_filter(self, cases: str) -> "Test":
        command = [part for part in self.command if not part.startswith("--gtest_filter")]
        return dataclasses.replace(self, command=[*command, f"--gtest_filter={cases}"])


@dataclasses.dataclass
class Outcome:
    how: str  # passed, skipped, failed, crashed, timeout
    case: str  # of GoogleTest, where there is one
    seconds: float
    output: str

    @property
    def good(self) -> bool:
        return self.how in ("passed", "skipped")


def read_tests(build: pathlib.Path):
    listed = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"], check=True, text=True,
                            capture_output=True)
    tests = []
    for entry in json.loads(listed.stdout)["tests"]:
        given = {p["name"]: p["value"] for p in entry.get("properties", [])}
        # Full output, so that the case which crashes is known; results of the ordinary build stay as they are.
        command = [part for part in entry["command"] if not part.startswith(("--gtest_brief", "--gtest_output"))]
        environment = dict(item.split("=", 1) for item in given.get("ENVIRONMENT", []))
        tests.append(Test(entry["name"], command, environment, given.get("WORKING_DIRECTORY", str(build)),
                          given.get("SKIP_RETURN_CODE", 0), given.get("TIMEOUT", 600),
                          given.get("DEPENDS", [])))
    return tests


class Suite:
    """quick: only the tests that a mutant names are tried."""

    def __init__(self, build: pathlib.Path, through: list, quick: bool):
        if not (build / "CTestTestfile.cmake").exists():
            sys.exit(f"there is no build in {build}; `mutants.py build` makes one")
        self.build, self.through, self.quick = build, through, quick
        self.tests = {test.name: test for test in read_tests(build) if test.name not in READS_SOURCES}
        self.took = {}

    def run(self, test: Test, mutant: int, allowed: float) -> Outcome:
        environment = {**os.environ, **test.environment}
        environment.pop("PROTEAN_MUTANT", None)
        if mutant:
            environment["PROTEAN_MUTANT"] = str(mutant)
        command = [*test.command, "--gtest_fail_fast"] if test.is_gtest else test.command
        done = subprocess.run([*self.through, "bash", "-c", TIMED, "timed", f"{allowed:.0f}", *command],
                              cwd=test.folder, env=environment, text=True, errors="replace", stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        output = done.stdout
        times = re.search(r"^@time (\S+) (\S+)$", output, re.MULTILINE)
        seconds = float(times[2]) - float(times[1]) if times else 0
        failed = re.findall(r"^\[  FAILED  \] ([^\s,(]+)", output, re.MULTILINE)
        begun = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
        status = done.returncode
        if status == 0:
            return Outcome("passed", "", seconds, output)
        if test.skip_status and status == test.skip_status:
            return Outcome("skipped", "", seconds, output)
        how = "timeout" if status in (124, 137) else "crashed" if status > 128 or status < 0 else "failed"
        case = failed[0] if how == "failed" and failed else begun[-1] if begun else ""
        return Outcome(how, case, seconds, output)

    def stamp(self, test: Test) -> float:
        """When the newest file of the build that this test names was made; of one that names none, such as
        installed-consumer, when the library was made."""
        named = [path for part in test.command if part.startswith(str(self.build)) and
                 (path := pathlib.Path(part)).is_file()]
        return max((path.stat().st_mtime for path in named or self.build.glob("libprotean.*")), default=0)

    def baseline(self, file: pathlib.Path, jobs: int, again: bool) -> bool:
        """All tests without a mutant: they must pass, and say how long each takes. What was built anew is run anew."""
        known = json.loads(file.read_text()) if file.exists() and not again else {}
        todo = [t for t in self.tests.values() if known.get(t.name, {}).get("stamp") != self.stamp(t)]
        self.took = {name: entry["seconds"] for name, entry in known.items() if name in self.tests}
        bad = self.run_baseline(todo, jobs, known)
        file.write_text(json.dumps(known, indent=1))
        if bad:
            print(f"without a mutant these tests do not pass: {', '.join(bad)}")
            return False
        self.took = {name: seconds for name, seconds in self.took.items() if seconds is not None}
        # Installing and building takes a minute: for a mutant the programs that are there then are enough.
        for program in PROGRAMS:
            path = self.build / "tests" / "install" / "consumer" / program
            if path.exists():
                self.tests[f"program {program}"] = Test(f"program {program}", [str(path)], {}, str(path.parent))
        self.tests.pop("installed-consumer", None)
        return True

    def run_baseline(self, todo, jobs: int, known: dict):
        """Names of the tests that do not pass; the others are put into `known`."""
        if todo:
            print(f"{len(todo)} of {len(self.tests)} tests without a mutant", flush=True)
        bad = []
        for first in (True, False):
            bad += self.run_once([t for t in todo if first == (not t.needs)], jobs, known)
        return bad

    def run_once(self, todo, jobs: int, known: dict):
        bad = []
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            futures = {pool.submit(self.run, t, 0, 4 * t.allowed): t for t in todo}
            for done in concurrent.futures.as_completed(futures):
                outcome, test = done.result(), futures[done]
                if not outcome.good and not self.run(test, 0, 4 * test.allowed).good:
                    bad.append(test.name)
                    print(f"{test.name} {outcome.how} {outcome.case}\n{outcome.output[-2000:]}", flush=True)
                    known.pop(test.name, None)
                    continue
                seconds = None if outcome.how == "skipped" else outcome.seconds
                known[test.name] = {"stamp": self.stamp(test), "seconds": seconds}
                self.took[test.name] = seconds
        return bad

    def allowed(self, test: Test) -> float:
        return max(LEAST_SECONDS, TIMES_BASELINE * (self.took.get(test.name) or 0))

    def named(self, entry: str):
        """The test that an entry of `first` names, with the filter behind its name; None where there is none.
        Names may have blanks: those of programs do."""
        for name in sorted(self.tests, key=len, reverse=True):
            if entry == name:
                return self.tests[name]
            if entry.startswith(name + " "):
                return self.tests[name].with_filter(entry[len(name) + 1:])
        print(f"there is no test '{entry}', which a mutant names", flush=True)
        return None

    def order(self, first, known):
        """The tests to try: the one that killed this mutant before, those named, then all by their time."""
        tests = []
        if known:
            name, _, case = known.partition(": ")
            if name in self.tests:
                tests.append(self.tests[name].with_filter(case) if case else self.tests[name])
        tests += [test for test in map(self.named, first) if test]
        if self.quick:
            return tests
        named = {test.name for test in tests if test in self.tests.values()}
        others = [test for test in self.tests.values() if test.name in self.took or test.name.startswith("program ")]
        return tests + sorted((t for t in others if t.name not in named),
                              key=lambda t: self.took.get(t.name) or 0)

    def again(self, test: Test, mutant: int, outcome: Outcome) -> bool:
        """A test that failed must fail with the mutant once more and pass without: a busy machine is no kill."""
        once = test.with_filter(outcome.case) if test.is_gtest and outcome.case else test
        if not self.run(once, 0, self.allowed(test)).good:
            return False
        if outcome.how == "timeout":
            return True
        return any(not self.run(once, mutant, self.allowed(test)).good for _ in range(REPEATS))

    def judge(self, mutant: int, first, known) -> dict:
        spent = 0
        for test in self.order(first, known):
            outcome = self.run(test, mutant, self.allowed(test))
            spent += outcome.seconds
            if not outcome.good and self.again(test, mutant, outcome):
                by = f"{test.name}: {outcome.case}" if outcome.case else test.name
                return {"status": "killed", "by": by, "how": outcome.how, "seconds": round(spent, 2)}
        return {"status": "survived", "seconds": round(spent, 2)}

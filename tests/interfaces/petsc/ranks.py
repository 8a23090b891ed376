"""What the tests that run `protean solve` on several ranks share."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

# Also in a container: as root, with fewer processors than ranks, without ssh.
environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_plm_rsh_agent="false", OMP_NUM_THREADS="1")
failed = 0


def skip_unless_built(folder):
    if why := (pathlib.Path(folder) / "skipped.txt").read_text().strip():
        print("skipped:", why)
        sys.exit(77)


def check(good, what, more=""):
    global failed
    failed += not good
    print(f"{'ok' if good else 'FAILED'}: {what}{'' if good else ': ' + str(more)[-3000:]}", flush=True)


class Run:
    """One call of the command: ranks 0 without mpirun. `before`: a shell command line that each rank runs first.
    `started` is called with the process while it runs."""

    def __init__(self, ranks, program, *arguments, before="", cwd=None, commands=None, started=None):
        one = [str(program), *map(str, arguments)]
        if before:
            one = ["sh", "-c", before + '\nexec "$@"', "sh", *one]
        if commands:
            line = ["mpirun", "--quiet"]
            for command in commands:
                line += [*([":"] if len(line) > 2 else []), "-n", "1", str(program), *map(str, command)]
        else:
            line = ["mpirun", "--quiet", "-n", str(ranks), *one] if ranks else one
        begin = time.monotonic()
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd,
                                   env=environment)
        if started:
            started(process)
            begin = time.monotonic()
        try:
            self.out, self.err = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            self.out, self.err = process.communicate()
            self.err += "\nit did not end"
        self.seconds = time.monotonic() - begin
        self.code = process.returncode
        self.errors = [text for text in self.err.splitlines() if text.startswith("protean: ")]
        self.told = f"{' '.join(line)}\n-> {self.code} after {self.seconds:.1f} s\n{self.out}\n{self.err}"


def report(path):
    return json.loads(pathlib.Path(path).read_text())


def vector(path):
    lines = [text for text in pathlib.Path(path).read_text().splitlines() if not text.startswith("%")]
    return [float(text) for text in lines[1:]]


def finish():
    print(f"{failed} failed")
    sys.exit(1 if failed else 0)


def begin(kind):
    """What the arguments name: the folder of the tests, the command and the part of the test; an empty folder for the
    part, and a function that solves a problem in it."""
    folder, protean, part = pathlib.Path(sys.argv[1]).resolve(), str(pathlib.Path(sys.argv[2]).resolve()), sys.argv[3]
    skip_unless_built(folder)
    work = folder / f"{kind}-{part}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()

    def solve(count, *arguments, name="run", problem="P.yaml"):
        """The report of a solve, and the call."""
        out = work / f"{name}.json"
        out.unlink(missing_ok=True)
        run = Run(count, protean, "solve", work / problem, "--quiet", "--report", out, *arguments)
        return (report(out) if out.exists() else {}), run

    return folder, protean, part, work, solve


def same(found, expected, slack=0):
    """Whether a solve has converged to what another one found."""
    return (found.get("status") == "converged" and abs(found["iterations"] - expected["iterations"]) <= slack
            and found["error"]["relative"] < 100 * expected["error"]["relative"] + 1e-7
            and found["residual"]["true_relative"] <= 1e-8 and found["matrix"] == expected["matrix"])

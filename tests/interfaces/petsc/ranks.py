"""What the tests that run `protean solve` on several ranks share."""
import json
import os
import pathlib
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

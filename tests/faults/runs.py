"""What the tests of files share: the runs of the command that read and write files, and what must hold of a folder
after each of them. Standard library only."""
import json
import os
import pathlib
import re
import shutil
import subprocess

OLD = b"the old file\n"
TEMPORARY = re.compile(r"\.\d+\.\d+\.tmp$")


class Run:
    """A command in a folder: what it writes, and the files that it reads."""

    def __init__(self, name, words, outputs, codes=(0,), seconds=60):
        self.name, self.words, self.outputs, self.codes, self.seconds = name, words, outputs, codes, seconds


# A change of the format by measured times would change the last bits of x.
SAME_BITS = ["--set", "operator.deterministic=true", "--threads", "1", "--quiet"]

# Each output may be the old file or the new one; a report may be missing, too (problems/README.md).
RUNS = [
    Run("solve", ["solve", "A.mtx", "--solution", "x.mtx", "--report", "r.json", "--history", "h.csv", *SAME_BITS],
        ["x.mtx", "r.json", "h.csv"]),
    Run("solve, compressed", ["solve", "A.mtx.gz", "--solution", "x.mtx.xz", *SAME_BITS], ["x.mtx.xz"]),
    Run("solve, .npy", ["solve", "A.pbin", "--solution", "x.npy", *SAME_BITS], ["x.npy"]),
    Run("convert to .pbin", ["convert", "A.mtx", "B.pbin"], ["B.pbin"]),
    Run("convert from .pbin", ["convert", "A.pbin", "B.mtx.gz"], ["B.mtx.gz"]),
    Run("generate", ["generate", "poisson-2d", "--set", "matrix.generate.n=20", "-o", "G.mtx", "--quiet"],
        ["G.mtx"]),
    Run("compare", ["compare", "A.mtx", "--formats", "csr", "--kernels", "native", "--report", "r.json", "--html",
                    "page.html", "--quiet"], ["r.json", "page.html"]),
    Run("solve with checkpoints", ["solve", "A.mtx", "--solution", "x.mtx", "--checkpoint", "1e-9", "--tolerance",
                                   "0.5", "--threads", "1", "--quiet"], ["x.mtx"]),
    Run("inspect", ["inspect", "A.mtx", "--json"], []),
]


def has_all_rows(text):
    """Whether a vector in a Matrix Market file has as many numbers as its header says."""
    lines = [line for line in text.split(b"\n") if line and not line.startswith(b"%")]
    return text.endswith(b"\n") and bool(lines) and len(lines) - 1 == int(lines[0].split()[0])


class Bench:
    """A folder with inputs, in which one command runs again and again."""

    def __init__(self, protean, folder):
        self.protean, self.folder = str(pathlib.Path(protean).resolve()), pathlib.Path(folder)
        self.inputs = self.folder / "inputs"
        self.inputs.mkdir()
        self.here = self.folder / "run"
        self.log = self.folder / "log"
        self.must(["generate", "poisson-2d", "--set", "matrix.generate.n=20", "-o", "A.mtx", "--quiet"], self.inputs)
        for name in ("A.mtx.gz", "A.pbin"):
            self.must(["convert", "A.mtx", name], self.inputs)
        self.complete = {}

    def must(self, words, folder):
        done = subprocess.run([self.protean, *words], cwd=folder, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise SystemExit(f"protean {' '.join(words)}: exit {done.returncode}: {done.stderr}")

    def fresh(self, run):
        shutil.rmtree(self.here, ignore_errors=True)
        shutil.copytree(self.inputs, self.here)
        for name in run.outputs:
            (self.here / name).write_bytes(OLD)

    def environment(self, library=None, at=0, kind=""):
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        if library:
            self.log.unlink(missing_ok=True)
            environment |= {"LD_PRELOAD": library, "PROTEAN_FAULT_FOLDER": str(self.here), "PROTEAN_FAULT_AT": str(at),
                            "PROTEAN_FAULT_KIND": kind, "PROTEAN_FAULT_LOG": str(self.log)}
        return environment

    def execute(self, run, **fault):
        return subprocess.run([self.protean, *run.words], cwd=self.here, capture_output=True, text=True,
                              timeout=run.seconds, env=self.environment(**fault))

    def fault_of_log(self):
        """The name of the call in which the fault was; None if it was never reached."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return next((line.split()[1] for line in lines if line.endswith("!")), None)

    def learn(self, run):
        """What the outputs are after a run without a fault."""
        self.fresh(run)
        done = self.execute(run)
        if done.returncode not in run.codes:
            raise SystemExit(f"{run.name}: exit {done.returncode}: {done.stderr}")
        self.complete[run.name] = {name: (self.here / name).read_bytes() for name in run.outputs}

    def wrong_output(self, run, name):
        """What is wrong with an output after a fault or a kill; empty if nothing is."""
        path = self.here / name
        if not path.exists():
            return "" if name in ("r.json", "page.html") else f"{name} is gone"
        text = path.read_bytes()
        if text == OLD or self.is_complete(run, name, text):
            return ""
        return f"{name} is neither the old file nor a new one ({len(text)} bytes)"

    def is_complete(self, run, name, text):
        if name.endswith(".json"):
            try:
                return isinstance(json.loads(text), dict)
            except ValueError:
                return False
        if name.endswith(".csv"):
            # Seconds differ from run to run; everything else is the same.
            def plain(content):
                return [re.sub(rb"[^,]*$", b"", line) for line in content.split(b"\n")]
            whole = plain(self.complete[run.name][name])
            return text.endswith(b"\n") and len(plain(text)) == len(whole)
        if name.endswith(".html"):
            return text.rstrip().endswith(b"</html>")
        if name.endswith(".mtx") and "--checkpoint" in run.words:
            return has_all_rows(text)
        return text == self.complete[run.name][name]

    def unknown_files(self, run, temporary_allowed):
        known = {path.name for path in self.inputs.iterdir()} | set(run.outputs)
        return [path.name for path in self.here.iterdir()
                if path.name not in known and not (temporary_allowed and TEMPORARY.search(path.name))]

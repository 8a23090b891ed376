#!/usr/bin/env python3
"""tutorials.py ROOT PREFIX COMPILER [PACKAGES]: runs the code of docs/tutorials with what is installed in PREFIX.

It also runs the folders of examples/how-to, and the shell's blocks of docs/fields.md, and solves with each key of a
problem file, and each keyword of Python, that docs/how-to.md names.

The blocks of a page run one after another in an empty folder; the folder of a how-to has its files, too. A block whose
first line is a comment with the name of a file is written to that file. Others are run: sh by the shell, python in one
interpreter for the page. PACKAGES: the folder in which Python finds the package; without it the blocks of Python are
left out, and those of the shell that call python3. A comment before a block says what it needs: <!-- needs: gpu -->,
<!-- needs: python MODULE -->, <!-- needs: package NAME --> (which pkg-config finds), or <!-- not run -->. After
<!-- printed --> comes what the block of the shell before it has printed: except for times and the white space, and with
lines left out at "...". The folder has the problems of the repository. Exit code 77: PREFIX is not there.
"""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

root, prefix, compiler, *packages = sys.argv[1:]
root, prefix = pathlib.Path(root), pathlib.Path(prefix)
if not (prefix / "bin" / "protean").exists():
    print(f"skipped: {prefix} has no installation; test installed-consumer makes it")
    sys.exit(77)
BLOCK = re.compile(r"(?:^<!-- (.+?) -->\n)?^```(\w*)\n(.*?)^```$", re.M | re.S)
NAME = re.compile(r"^(?://|#) ([\w-]+\.(?:cpp|yaml|py))\n")


def plain(text):
    """Without what differs from run to run: times, and where lines were broken."""
    text = re.sub(r"\b[\d.]+(?:e[+-]?\d+)? (?:ns|us|ms|s|min)\b", "TIME", text)
    return " ".join(text.split())


def was_printed(shown, printed):
    """Whether the pieces of `shown`, between lines of ..., are in `printed` in this order."""
    rest = plain(printed)
    for piece in re.split(r"^\.\.\.$", shown, flags=re.M):
        before, found, rest = rest.partition(plain(piece))
        if not found:
            return False
    return True


def missing(need):
    if need == "not run":
        return "told not to"
    if need == "needs: gpu":
        tool = shutil.which("nvidia-smi")
        return "" if tool and subprocess.run([tool, "-L"], capture_output=True).returncode == 0 else "no device"
    if need.startswith("needs: package "):
        name = need.removeprefix("needs: package ")
        there = shutil.which("pkg-config") and subprocess.run(["pkg-config", "--exists", name]).returncode == 0
        return "" if there else f"pkg-config knows no {name}"
    if need.startswith("needs: python "):
        name = need.removeprefix("needs: python ")
        return "" if importlib.util.find_spec(name) else f"this Python has no {name}"
    sys.exit(f"'{need}' is nothing that a block may need")


environment = {
    **os.environ,
    "PATH": f"{prefix / 'bin'}:{os.environ['PATH']}",
    "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig"),
    "LD_LIBRARY_PATH": str(prefix / "lib"),
    "PYTHONPATH": os.pathsep.join(packages),
}
failed = ran = shown = 0
how_to = sorted((root / "examples" / "how-to").glob("*/README.md"))
used = set()  # files of these folders that a block names
# Pages of reference: their other blocks without a name are pieces.
reference = [root / "docs" / "fields.md"]
for page in [*sorted((root / "docs" / "tutorials").glob("*.md")), *how_to, *reference]:
    title = page.parent.name if page in how_to else page.name
    with tempfile.TemporaryDirectory() as folder:
        if page in how_to:
            shutil.copytree(page.parent, folder, dirs_exist_ok=True)
        # The compiler and the interpreter of this build, under the names that the page has.
        (pathlib.Path(folder) / ".bin").mkdir()
        (pathlib.Path(folder) / ".bin" / "c++").symlink_to(shutil.which(compiler))
        interpreter = pathlib.Path(folder) / ".bin" / "python3"
        interpreter.write_text(f"#!/bin/sh\nexec '{sys.executable}' \"$@\"\n")
        interpreter.chmod(0o755)
        own = {**environment, "PATH": f"{folder}/.bin:{environment['PATH']}"}
        if not (pathlib.Path(folder) / "problems").exists():
            (pathlib.Path(folder) / "problems").symlink_to((root / "problems").resolve())
        python, printed = [], ""
        for need, language, text in BLOCK.findall(page.read_text()):
            if page in reference and language != "sh" and need != "printed" and not NAME.match(text):
                continue
            if need == "printed":
                shown += 1
                if not was_printed(text, printed):
                    failed += 1
                    print(f"{title}: FAILED: it has not printed\n{text}\nbut\n{printed[-3000:]}")
                continue
            reason = missing(need) if need else ""
            if page in how_to:
                used |= {file for file in page.parent.iterdir() if file.name in text}
            if (language == "python" or re.match(r"python3 ", text)) and not packages:
                reason = "the package for Python is not built"
            if reason:
                print(f"{title}: a block of {language} is left out: {reason}")
                continue
            name = NAME.match(text)
            if name:
                (pathlib.Path(folder) / name[1]).write_text(text)
            elif language == "sh":
                done = subprocess.run(
                    ["sh", "-ec", text], cwd=folder, env=own, capture_output=True, text=True, timeout=300
                )
                ran += 1
                printed = done.stdout
                print(f"{title}: {text.splitlines()[0]}: {'ran' if done.returncode == 0 else 'FAILED'}", flush=True)
                if done.returncode != 0:
                    failed += 1
                    print(done.stdout[-3000:], done.stderr[-3000:])
            elif language == "python":
                python.append(text)
            elif language not in ("yaml", ""):
                sys.exit(f"{title}: a block of {language} has no name in its first line, and nothing runs it")
        if python:
            code = [sys.executable, "-c", "\n".join(python)]
            done = subprocess.run(code, cwd=folder, env=own, capture_output=True, text=True, timeout=300)
            ran += len(python)
            print(f"{title}: {len(python)} blocks of python: {'ran' if done.returncode == 0 else 'FAILED'}")
            if done.returncode != 0:
                failed += 1
                print(done.stdout[-3000:], done.stderr[-3000:])
for page in how_to:
    for file in sorted({*page.parent.iterdir()} - {page} - used):
        failed += 1
        print(f"FAILED: no block of {page} names {file.name}")
# The second column of the table: a piece of a problem file, to which a matrix is added.
MATRIX = "matrix: {generate: {kind: poisson-2d, n: 12}"
for row in re.findall(r"^\| [^|]+\| `(\w+: [^`|]+)` ", (root / "docs" / "how-to.md").read_text(), re.M):
    if "device" in row and missing("needs: gpu"):
        print(f"how-to.md: {row} is left out: no device")
        continue
    if "null_space" in row:
        row = f"matrix: {{generate: {{kind: graph-laplacian, n: 200, shift: 1.0e-300}}}}\n{row}"
    elif not row.startswith("matrix:"):
        row = f"{MATRIX}}}\n{row}"
    elif "generate" not in row:
        row = MATRIX + ", " + row.removeprefix("matrix: {")
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "problem.yaml").write_text(row + "\n")
        solve = ["protean", "solve", "problem.yaml"]
        done = subprocess.run(solve, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    ran += 1
    if done.returncode != 0:
        failed += 1
        print(f"how-to.md: FAILED: {row}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
# The last column: a keyword of solve().
keywords = re.findall(r"\| `(\w+=[^`|]+)` \|$", (root / "docs" / "how-to.md").read_text(), re.M) if packages else []
for keyword in keywords:
    if "device" in keyword and missing("needs: gpu"):
        print(f"how-to.md: {keyword} is left out: no device")
        continue
    # A chain of springs, which is free if it is to be singular.
    code = (
        "import numpy as np, protean\n"
        "A = 2 * np.eye(40) - np.eye(40, k=1) - np.eye(40, k=-1)\n"
        "b = np.arange(40) - 19.5\n"
        f"if {'null_space' in keyword}: A[0, 0] = A[-1, -1] = 1\n"
        f"assert protean.solve(A, b, {keyword}).converged"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    ran += 1
    if done.returncode != 0:
        failed += 1
        print(f"how-to.md: FAILED: {keyword}\n{done.stderr[-2000:]}")
print(f"{ran} blocks ran, {shown} outputs were compared, {failed} failed")
sys.exit(1 if failed or ran < 5 or shown < 5 else 0)

#!/usr/bin/env python3
"""results.py ROOT: the pages of docs/results are what their data says.

Each table is the one that its command makes, data is small, compressed and used, and the built-in machine tables are
those of the stored files. Without PyYAML the last part is left out.
"""

import importlib.util
import pathlib
import re
import subprocess
import sys

MOST_DATA = 1_500_000
TABLES = {
    "builtin_machine.tsv": [
        "host:tune-host-intel-avx512.yaml.xz:Intel Xeon, AVX-512, 2 threads, 2026-11-28",
        "named:tune-gpu-h100.yaml.xz:NVIDIA H100, 2026-11-28",
        "named:tune-gpu-h200.yaml.xz:NVIDIA H200, 2026-11-28",
        "element-degrees-host.json.xz",
        "element-degrees-gpu.json.xz",
    ],
    "builtin_amd_avx512.tsv": ["--host", "tune-host-amd-avx512.yaml.xz", "AMD EPYC, AVX-512, 2 threads, 2026-11-26"],
    "builtin_avx2.tsv": ["--host", "tune-host-avx2.yaml.xz", "AMD EPYC, AVX2, 2 threads, 2026-11-25"],
}

root = pathlib.Path(sys.argv[1]).resolve()
results = root / "docs/results"
wrong = []


def run(script, *words, folder=root):
    return subprocess.run(
        [sys.executable, root / "benchmarks" / script, *words], cwd=folder, capture_output=True, text=True
    )


done = run("tables.py", "pages", "--check")
if done.returncode != 0:
    wrong.append(f"not the tables of their data, run benchmarks/tables.py pages:\n{done.stdout}{done.stderr}")

pages = {page.name: page.read_text() for page in results.glob("*.md")}
text = "\n".join(
    [*pages.values()]
    + [file.read_text() for pattern in ("benchmarks/*.py", "benchmarks/*.sh", "tools/*.py", "tests/**/*.py")
       for file in root.glob(pattern)]
    + [file.read_text() for file in root.glob("tests/research/*.cpp")]
)
data = sorted((results / "data").iterdir())
for file in data:
    if file.suffix != ".xz":
        wrong.append(f"{file.name} is not compressed")
    elif file.name not in text and file.name.removesuffix(".xz") not in text:
        wrong.append(f"no page and no script names {file.name}")
if (size := sum(file.stat().st_size for file in data)) > MOST_DATA:
    wrong.append(f"docs/results/data has {size} bytes; {MOST_DATA} are allowed")
for file in results.iterdir():
    if file.suffix not in (".md", ".svg") and file.name != "data":
        wrong.append(f"{file.name} does not belong into docs/results: data goes to data/, compressed")
    elif file.suffix == ".md" and file.name != "README.md" and f"({file.name})" not in pages["README.md"]:
        wrong.append(f"docs/results/README.md does not name {file.name}")


def measured(lines):
    # The few formats that are worth a look are chosen by test_policy, not by the script.
    return [line for line in lines if not line.startswith("few\t")]


if importlib.util.find_spec("yaml"):
    for name, words in TABLES.items():
        made = run("make_machine_table.py", *words, folder=results / "data")
        if made.returncode != 0:
            wrong.append(f"{name}: {made.stderr}")
            continue
        stored = (root / "operators/policy" / name).read_text()
        if measured(made.stdout.splitlines()) != measured(stored.splitlines()):
            wrong.append(f"operators/policy/{name} is not what make_machine_table.py makes of the stored files")
else:
    print("the built-in tables were not compared: there is no PyYAML")
tables = sum(len(re.findall(r"^<!-- made by: ", page, re.M)) for page in pages.values())
print("\n".join(wrong) if wrong else f"{len(pages)} pages, {tables} tables, {size} bytes of data")
sys.exit(bool(wrong))

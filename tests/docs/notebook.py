#!/usr/bin/env python3
"""notebook.py NOTEBOOK...: executes notebooks in an empty folder. Each cell must end without an error, and each kind of
output that the stored notebook has must come again. Exit code 77: nbclient or a package that the notebook imports is
missing."""

import importlib.util
import pathlib
import sys
import tempfile

needed = "nbclient", "ipykernel", "matplotlib", "scipy", "protean"
missing = [name for name in needed if importlib.util.find_spec(name) is None]
if missing:
    print(f"skipped: {sys.executable} has no {', '.join(missing)}")
    sys.exit(77)
import nbformat  # noqa: E402
from nbclient import NotebookClient  # noqa: E402


def kinds(notebook):
    return [
        sorted({kind for output in cell.get("outputs", []) for kind in output.get("data", {"text": ""})})
        for cell in notebook.cells
    ]


for name in sys.argv[1:]:
    stored = nbformat.read(name, 4)
    notebook = nbformat.read(name, 4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(
            notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}
        ).execute()
    if kinds(notebook) != kinds(stored):
        sys.exit(f"{name}: the outputs are of other kinds than those stored: {kinds(notebook)}, {kinds(stored)}")
    shown = [cell for cell in notebook.cells if cell.get("outputs")]
    if "-> sell-packed" not in "".join(output.get("text", "") for cell in shown for output in cell["outputs"]):
        sys.exit(f"{pathlib.Path(name).name}: it no longer shows a change of the format")
    print(f"{pathlib.Path(name).name}: {len(shown)} cells with outputs")

#!/usr/bin/env python3
"""site.py ROOT FOLDER PYTHON: builds the site with warnings as errors, and looks at what a reader needs.

That is the start page, a function of each reference, pictures, folders to download, that no page asks the network for
anything, and that the search works in files without a server. Exit code 77: Doxygen or a package of
docs/site/requirements.txt is missing.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

root, work, python = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]
wanted = {"breathe": "breathe", "furo": "furo", "myst-nb": "myst_nb", "numpy": "numpy", "sphinx": "sphinx"}
code = f"import importlib.util as u; print(*[n for n, m in {wanted!r}.items() if u.find_spec(m) is None])"
missing = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.split()
if not shutil.which("doxygen"):
    missing.insert(0, "doxygen")
if missing:
    print(f"skipped: {', '.join(missing)} not installed; `make docs` installs what the site needs")
    sys.exit(77)
work.mkdir(parents=True, exist_ok=True)
done = subprocess.run([root / "docs/site/sphinx.sh", work, python], capture_output=True, text=True)
if done.returncode != 0:
    sys.exit(done.stdout + done.stderr)
html = work / "html"
problems = []
for page, text in (
    ("docs/site/index", "Solve a system"),
    ("docs/site/reference/cpp-systems", "multi_solve"),
    ("docs/site/reference/cpp-core", "csr_view"),
    ("docs/site/reference/c", "protean_solve"),
    ("docs/site/reference/python", "relative_tolerance"),
    ("docs/formats", "sell-packed"),
    ("problems/README", "preconditioner.type"),
    ("docs/notebooks/formats", ".png"),
    ("docs/how-it-works", "switching-host.svg"),
    ("docs/tutorials/gallery", "gallery-explain.svg"),
    ("examples/how-to/format/README", "../format.zip"),
):
    path = html / f"{page}.html"
    if not path.exists() or text not in path.read_text():
        problems.append(f"{page} does not have '{text}'")
fetched = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"(?:https?:)?//|<link\b[^>]*\bhref=\"(?:https?:)?//")
pages = list(html.rglob("*.html"))
problems += [
    f"{page.relative_to(html)} asks the network for something"
    for page in pages
    if "_downloads" not in page.parts and fetched.search(page.read_text())
]
for folder in (root / "examples/how-to").iterdir():
    with zipfile.ZipFile(html / f"examples/how-to/{folder.name}.zip") as archive:
        packed = {name: archive.read(name) for name in archive.namelist()}
    if packed != {f"{folder.name}/{path.name}": path.read_bytes() for path in folder.iterdir()}:
        problems.append(f"{folder.name}.zip is not the folder")
browser = next((name for name in ("chromium", "chromium-browser", "google-chrome") if shutil.which(name)), None)
if browser:
    # A folder of its own: another Chromium of the same user would take the page.
    words = [browser, "--headless", "--no-sandbox", f"--user-data-dir={work / 'browser'}", "--dump-dom",
             "--virtual-time-budget=10000"]
    for asked, found in (("hyb", "docs/formats"), ("nosuchwordhere", "")):
        done = subprocess.run([*words, f"{(html / 'search.html').as_uri()}?q={asked}"], capture_output=True, text=True)
        results = re.search(r'<ul[^>]*class="search"[^>]*>(.*?)</ul>', done.stdout, re.S)
        links = re.findall(r'href="([^"#?]+)', results[1]) if results else []
        if bool(found) != bool(links) or not any(found in link for link in [*links, ""]):
            problems.append(f"a search of '{asked}' finds {links[:5]}: {done.stderr[-300:]}")
else:
    print("left out: the search, since Chromium is not installed")
if problems:
    sys.exit("\n".join(problems))
print(f"{len(pages)} pages")

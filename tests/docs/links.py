#!/usr/bin/env python3
"""links.py ROOT: every relative link of a page leads to a file or folder of the repository, and to a heading there."""

import pathlib
import re
import subprocess
import sys

root = pathlib.Path(sys.argv[1]).resolve()
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.M | re.S)
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")


def pages():
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        capture_output=True,
        text=True,
    )
    if listed.returncode == 0:
        return [root / name for name in listed.stdout.split("\n") if name and (root / name).exists()]
    return [page for page in root.rglob("*.md") if "build" not in page.relative_to(root).parts[:1]]


def anchors(page):
    """The names of the headings, as GitHub and MyST make them."""
    found, seen = set(), {}
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", FENCE.sub("", page.read_text()), re.M):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        name = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        count = seen.get(name, 0)
        seen[name] = count + 1
        found.add(f"{name}-{count}" if count else name)
    return found


broken, links = [], 0
for page in pages():
    text = FENCE.sub(lambda match: "\n" * match[0].count("\n"), page.read_text())
    text = re.sub(r"`[^`\n]*`", "", text)
    for match in LINK.finditer(text):
        target, _, anchor = match[1].partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        links += 1
        where = f"{page.relative_to(root)}:{text.count(chr(10), 0, match.start()) + 1}: {match[1]}"
        path = (page.parent / target).resolve() if target else page
        if not path.exists():
            broken.append(f"{where}: there is no such file")
        elif root not in (path, *path.parents):
            broken.append(f"{where}: outside of the repository")
        elif anchor and path.suffix == ".md" and anchor not in anchors(path):
            broken.append(f"{where}: {path.relative_to(root)} has no such heading")
print("\n".join(broken))
print(f"{links} links, {len(broken)} broken")
sys.exit(bool(broken) or links < 100)

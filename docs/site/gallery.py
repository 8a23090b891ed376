#!/usr/bin/env python3
"""Makes the pictures of docs/tutorials/gallery.md from the commands of that page.

usage: gallery.py PROTEAN PACKAGES

PROTEAN: the command. PACKAGES: the folder with the Python package; this interpreter has NumPy, SciPy and matplotlib.
Chromium takes the picture of the page, and Pillow makes it small. The pictures go to docs/images."""

import html
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

import matplotlib
from PIL import Image, ImageChops

matplotlib.use("svg")
root = pathlib.Path(__file__).resolve().parents[2]
command, packages = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
images = root / "docs/images"
widest = 112  # columns
page = (root / "docs/tutorials/gallery.md").read_text()
blocks = re.findall(r"^```(\w+)\n(.*?)^```", page, re.M | re.S)
environment = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}", "COLUMNS": str(widest)}
sys.path.insert(0, str(packages))


def wrapped(line):
    """The line, or several: what is too long goes on below the beginning of its last column."""
    if len(line) <= widest:
        return [line]
    columns = [gap.end() for gap in re.finditer(r"\S {2,}(?=\S)", line) if gap.end() <= widest - 20]
    return textwrap.wrap(line, widest, subsequent_indent=" " * (columns[-1] if columns else 0), break_long_words=False)


def terminal(name, asked, text):
    """A picture of what a command has printed."""
    lines = [f"$ {asked}", *(part for line in text.strip("\n").split("\n") for part in wrapped(line))]
    height, advance = 17, 7.83
    size = f"{widest * advance + 24:.0f} {len(lines) * height + 20}"
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}"'
           ' font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="13">',
           '<rect width="100%" height="100%" rx="6" fill="#1c2128"/>']
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        warning = re.match(r"\s*warning ", line)
        colour = "#7ee787" if number == 0 else "#ffa657" if warning else "#e6edf3"
        kept = html.escape(line).replace(" ", "\u00a0")
        out.append(f'<text x="12" y="{number * height + 24}" fill="{colour}" textLength="{len(line) * advance:.1f}" '
                   f'lengthAdjust="spacingAndGlyphs">{kept}</text>')
    (images / f"gallery-{name}.svg").write_text("\n".join([*out, "</svg>"]) + "\n")


with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(folder)
    environment["TMPDIR"] = folder
    for language, text in blocks:
        if language == "yaml":
            (work / re.match(r"# (\S+)", text)[1]).write_text(text)
        elif language == "python":
            names = {}
            exec(text, names)
            figure = names["axes"].figure
            figure.set_size_inches(7, 3.6)
            figure.tight_layout()
            matplotlib.rcParams["svg.hashsalt"] = "protean"
            figure.savefig(images / "gallery-residuals.svg", metadata={"Date": None})
        else:
            done = subprocess.run(["sh", "-c", text], cwd=work, env=environment, text=True, capture_output=True)
            name = next(word for word in ("explain", "compare", "metod", "doctor") if word in text)
            if name != "compare":
                said = (done.stdout + done.stderr).replace(folder, "/tmp")
                # In a tutorial `!` says that the command shall fail.
                terminal({"metod": "error"}.get(name, name), text.strip().removeprefix("! "), said)

    shot = work / "page.png"
    subprocess.run(["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--force-device-scale-factor=1",
                    "--window-size=1200,3000", f"--screenshot={shot}", "--virtual-time-budget=3000",
                    (work / "page.html").as_uri()], check=True, capture_output=True)
    with Image.open(shot) as picture:
        picture = picture.convert("RGB")
        ground = Image.new("RGB", picture.size, picture.getpixel((0, picture.height - 1)))
        picture = picture.crop((0, 0, picture.width, ImageChops.difference(picture, ground).getbbox()[3] + 24))
        picture.quantize(64, dither=Image.Dither.NONE).save(images / "gallery-compare.png", optimize=True)
for path in sorted(images.glob("gallery-*")):
    print(f"{path.relative_to(root)}: {path.stat().st_size} bytes")

#!/usr/bin/env python3
"""Makes docs/formats.md from formats/catalogue.def and the heads of the files of the formats.

usage: docs/formats.py [--check]

--check writes nothing and fails when docs/formats.md is not what would be written."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
fields = ["Arrays", "Bytes", "Parameters", "Wins", "Refuses", "Source"]
families = {
    "row": "Compressed rows", "column": "Compressed columns", "coordinate": "Coordinates",
    "ell": "Padded rows and slices",
    "jagged": "Jagged diagonals", "lanes": "Lanes", "diagonal": "Diagonals", "block": "Blocks",
    "compressed": "Indices in few bits",
    "tiled": "Tiles", "symmetric": "Symmetric halves", "hybrid": "Sums of parts",
    "composed": "Sums that users and planners compose"}


def entries():
    text = (root / "formats/catalogue.def").read_text()
    engine = None
    for kind, family, name, its in re.findall(r"^PROTEAN_(FORMAT|PRESET)\((\w+), *(\w+)(?:, *(\w+))?\)", text, re.M):
        engine = its or engine
        yield kind, family, name, its


def head(path):
    """The sentence, the picture and the fields of the comment at the head of a file."""
    lines = []
    for line in path.read_text().splitlines():
        if not line.startswith("//"):
            break
        lines.append(line[2:].rstrip())
    blank = lines.index("")
    sentence = " ".join(line.strip() for line in lines[:blank])
    first = next(i for i, line in enumerate(lines) if re.match(r"^ Arrays:", line))
    picture = lines[blank + 1:first]
    texts, name = {}, None
    for line in lines[first:]:
        match = re.match(r"^ (\w+):(.*)", line)
        if match and match[1] in fields:
            name = match[1]
            texts[name] = [match[2].strip()] if match[2].strip() else []
        elif not line:
            name = None  # what follows the fields
        elif name:
            texts[name].append(line)
    while picture and not picture[-1]:
        picture.pop()
    return sentence, picture, texts


def device_head(path):
    """The comment at the head of the .cu file of a format; nothing where it has none."""
    device = path.with_suffix(".cu")
    if not device.exists():
        return []
    lines = []
    for line in device.read_text().splitlines():
        if not line.startswith("//"):
            break
        lines.append(line[2:].rstrip())
    while lines and not lines[-1]:
        lines.pop()
    return lines


def paragraph(lines):
    return " ".join(line.strip() for line in lines)


def code(lines):
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "```text\n" + "\n".join(line[indent:].rstrip() for line in lines) + "\n```\n"


def base_of(path):
    match = re.search(r'\.base = "([^"]+)"', path.read_text())
    return match[1] if match else None


def spaces(path, base, known):
    own = path.with_suffix(".cu").exists()
    if ".kernels = {}" in path.read_text():
        return "device"
    return "host, device" if own or (base and "device" in known.get(base, "")) else "host"


def page():
    listed = list(entries())
    known, rows, sections = {}, [], {}
    for kind, family, name, engine in listed:
        identifier = name.replace("_", "-")
        path = root / "formats" / family / f"{name}.cpp"
        base = base_of(path) if kind == "PRESET" else None
        known[identifier] = spaces(path, base, known)
        sentence, picture, texts = head(path)
        what = f"preset of {base}" if base else f"own, engine `{engine}`"
        rows.append((family, f"| [{identifier}](#{identifier}) | {what} | {known[identifier]} | "
                     f"{paragraph(texts['Wins'])} |"))
        block = [f"### {identifier}\n", f"{sentence}\n", f"*{what[0].upper() + what[1:]}; {known[identifier]}; "
                 f"`formats/{family}/{name}.cpp`.*\n", code(picture)]
        for field in fields:
            lines = texts[field]
            multi = len(lines) > 1 and any(re.match(r"^ +\S+  +\S", line) for line in lines)
            block.append(f"**{field}**\n\n{code(lines)}" if multi else f"**{field}**: {paragraph(lines)}\n")
        if device := device_head(path):
            block.append(f"**On a GPU** (`formats/{family}/{name}.cu`)\n\n{code(device)}")
        sections.setdefault(family, []).append("\n".join(block))
    presets = sum(kind == "PRESET" for kind, *_ in listed)
    out = ["# Storage formats\n",
           "Made by `docs/formats.py` from the heads of the files of the formats; do not edit. What a format wins is "
           "measured in [results](results/README.md).\n",
           f"{len(listed)} formats: {len(listed) - presets} with a layout or product of their own, {presets} presets "
           "(a format with the arrays and code of its base, and fixed parameters or another kernel). `v` is the number "
           "of bytes of a value.\n"]
    order = [f for f in families if f in sections] + [f for f in sections if f not in families]
    for family in order:
        out += [f"## {families.get(family, family)}\n", "| format | kind | spaces | wins |\n|---|---|---|---|"]
        out += ["\n".join(row for its, row in rows if its == family) + "\n"]
        out += sections[family]
    return "\n".join(out).rstrip() + "\n"


def main():
    target = root / "docs/formats.md"
    text = page()
    if "--check" in sys.argv[1:]:
        if not target.exists() or target.read_text() != text:
            print("docs/formats.md is not what docs/formats.py makes of the sources; run docs/formats.py")
            return 1
        return 0
    target.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

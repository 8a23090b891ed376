#!/usr/bin/env python3
"""Makes docs/formats.md, the table "What is ours" of docs/formats-fidelity.md, and the number of formats in other pages
from formats/catalogue.def and the heads of the files of the formats.

usage: docs/formats.py [--check]

--check writes nothing and fails when a page is not what would be written."""
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
    """The comment at the head of the .cu file of a format; nothing if it has none."""
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


def ours(path):
    """The sentences of the heads of a format that say what its source does not."""
    found = []
    for file in (path, path.with_suffix(".cu")):
        if not file.exists():
            continue
        lines = []
        for line in file.read_text().splitlines():
            if not line.startswith("//"):
                break
            lines.append(line[2:].strip())
        # Lines of a table of parameters begin with a name and end without a full stop.
        for part in re.split(r"\n\n|\n(?=\w+:)", "\n".join(lines)):
            text = re.sub(r"^(Source|Parameters|Wins|Refuses|Arrays|Bytes): *", "", part.replace("\n", " "))
            for sentence in re.split(r"(?<=[.;])\s+(?=[A-Z])", text):
                if re.search(r"\b(ours|our (own|reading|choice))\b", sentence) and sentence not in found:
                    found.append(sentence.strip())
    return found


def fidelity():
    """docs/formats-fidelity.md with its table anew."""
    begin, end = "<!-- what is ours -->\n", "<!-- end -->\n"
    page = (root / "docs/formats-fidelity.md").read_text()
    rows = ["| format | its head says |\n|---|---|\n"]
    for _, family, name, _ in entries():
        said = ours(root / "formats" / family / f"{name}.cpp")
        if said:
            rows.append(f"| {name.replace('_', '-')} | {' '.join(said)} |\n")
    return page[:page.index(begin)] + begin + "".join(rows) + page[page.index(end):]


# The pages that say how many formats there are, and where. A page of results says how many were measured.
COUNTED = {
    "CHANGELOG.md": r"(?<=^- )\d+(?= storage formats in )",
    "docs/site/index.md": r"(?<=It has )\d+(?= formats\.)",
    "docs/tutorials/compare.md": r"(?<=takes each of the )\d+\b",
}


def counted(name):
    """A page with the number of formats anew."""
    text, places = re.subn(COUNTED[name], str(len(list(entries()))), (root / name).read_text(), flags=re.M)
    if places != 1:
        sys.exit(f"{name}: its number of formats is in {places} places, not in one; docs/formats.py has the pattern")
    return text


def main():
    wrong = 0
    pages = [("docs/formats.md", page), ("docs/formats-fidelity.md", fidelity)]
    pages += [(name, lambda name=name: counted(name)) for name in COUNTED]
    for name, make in pages:
        target, text = root / name, make()
        if "--check" not in sys.argv[1:]:
            target.write_text(text)
        elif not target.exists() or target.read_text() != text:
            print(f"{name} is not what docs/formats.py makes of the sources; run docs/formats.py")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())

"""The file of every format opens with the same fields, in one order: a sentence, a picture of a 4 x 4 example, Arrays,
Bytes, Parameters, Wins, Refuses, Source."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
fields = ["Arrays", "Bytes", "Parameters", "Wins", "Refuses", "Source"]


def faults(text):
    head = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        head.append(line[2:])
    if not head or not head[0].strip():
        return ["does not open with a comment"]
    found = []
    sentence = " ".join(line.strip() for line in head[:head.index("") if "" in head else len(head)])
    if not sentence.endswith("."):
        found.append("does not open with one sentence and an empty line")
    rows = [line for line in head if re.match(r"^ +(A = )?\|( [.0-9]+){4} \|", line)]
    if len(rows) != 4:
        found.append(f"has a picture of {len(rows)} rows, not of a 4 x 4 matrix")
    order = [match[1] for line in head if (match := re.match(r"^ (\w+):", line)) and match[1] in fields]
    if order != fields:
        found.append(f"has the fields {', '.join(order) or 'none'}, not {', '.join(fields)}")
    return found


entries = re.findall(r"^PROTEAN_(?:FORMAT|PRESET)\((\w+), *(\w+)[,)]", (root / "formats/catalogue.def").read_text(),
                     re.M)
wrong = [] if entries else ["formats/catalogue.def has no formats"]
for family, name in entries:
    path = f"formats/{family}/{name}.cpp"
    wrong += [f"{path} {fault}" for fault in faults((root / path).read_text())]
print("\n".join(wrong))
sys.exit(bool(wrong))

#!/usr/bin/env python3
"""Shows the data of an older page of `protean compare --html` in today's page: docs/compare_page.py PAGE.html...

Each page is written again in place. Its numbers are those that it has: nothing is measured or computed. What older
pages lack is the family of a format, which the catalogue has.
"""
import json
import os
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
template = (root / "apps/compare/compare.html").read_text()
families = {name.replace("_", "-"): family.replace("_", "-") for family, name in
            re.findall(r"^PROTEAN_(?:FORMAT|PRESET)\((\w+), (\w+)", (root / "formats/catalogue.def").read_text(), re.M)}
mark, begin = "/*data*/null", "const data = "
if template.count(mark) != 1:
    sys.exit(f"apps/compare/compare.html must have one place {mark} for its data")
if len(sys.argv) < 2:
    sys.exit(__doc__.strip())
for name in sys.argv[1:]:
    page = pathlib.Path(name)
    text = page.read_text()
    at = text.find(begin)
    if at < 0:
        sys.exit(f"{page} has no '{begin}': it is not a page of protean compare")
    data = json.JSONDecoder().raw_decode(text[at + len(begin):])[0]
    for problem in data["problems"]:
        for run in problem["runs"]:
            # "sell-c-sigma cusparse", where two spaces are shown "device sell-c-sigma"
            known = [families[word] for word in run["name"].split() if word in families]
            if "family" not in run and len(known) != 1:
                sys.exit(f"{page}: the catalogue does not have the format of '{run['name']}'")
            run.setdefault("family", known[0] if known else "")
    # As the command writes it: JSON that may stand inside a script.
    written = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    new = page.with_name(page.name + ".new")
    new.write_text(template.replace(mark, written))
    os.replace(new, page)
    print(page)

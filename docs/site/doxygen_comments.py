#!/usr/bin/env python3
"""Prints a header with its comments as Doxygen wants them: a filter for Doxygen (INPUT_FILTER).

Our headers have plain // comments above what they describe, or behind it on the same line. Doxygen takes /// and ///<.
Lines of a comment that are indented are code or a table, and are shown as they are.
"""

import re
import sys

text = open(sys.argv[1], encoding="utf-8").read()
# A macro that the header itself takes back is not for its readers.
for name in set(re.findall(r"^#undef (\w+)", text, flags=re.M)):
    text = re.sub(rf"^#define {name}\b(?:.*\\\n)*.*\n|^#undef {name}\n", "", text, flags=re.M)
lines = text.splitlines()
head, verbatim = True, False
if lines[0].startswith("//"):
    print("/// \\file")
for line in lines:
    above = re.match(r"^(\s*)//(?!/)(.*)$", line)
    indented = above is not None and above[2].startswith("   ")
    if indented != verbatim and not (verbatim and above and not above[2].strip()):
        indent = above[1] if above else last
        print(f"{indent}/// \\{'' if indented else 'end'}verbatim")
        verbatim = indented
    if above:
        last = above[1]
        print(f"{above[1]}///{above[2]}")
        continue
    # A type that C programs know by name only is one type, not two; what a member begins with is not part of its type.
    line = re.sub(r"^typedef struct (\w+) \1;", r"struct \1;", line)
    line = re.sub(r"(\w)\{\.\w+ = [^{}]*\}", r"\1", line)
    behind = re.match(r"^(.*[;,{}]\s*)//(?!/)(.*)$", line)
    print(f"{behind[1]}///<{behind[2]}" if behind and '"' not in line else line)

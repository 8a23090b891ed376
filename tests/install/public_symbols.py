#!/usr/bin/env python3
"""Compares what the shared library shows with docs/abi/symbols.txt, and its soname with the version.

public_symbols.py NM READELF LIBRARY SOURCE_FOLDER VERSION [--cuda] [--write]

--cuda: the library was built with CUDA, and shows the symbols of docs/abi/symbols-cuda.txt, too. --write writes the
list anew; with --cuda that of what only such a build shows. It has the names without the parameters' spelling of one
compiler: c++filt's, sorted, each once. Also: each function that protean.h declares is there, and no other C function;
nothing is there that lies outside of namespace protean. Where the sources are a clone with a tag, says which symbols of
that version are gone; while the soname is still that of the tag, that is a failure.
"""
import pathlib
import re
import subprocess
import sys

write, cuda = "--write" in sys.argv, "--cuda" in sys.argv
nm, readelf, library, source, version = [word for word in sys.argv[1:] if word not in ("--write", "--cuda")]
source = pathlib.Path(source)
page, cuda_page = source / "docs" / "abi" / "symbols.txt", source / "docs" / "abi" / "symbols-cuda.txt"


def output(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def soname_of(version):
    """Versions 0.x need not be compatible with each other."""
    major, minor = version.split(".")[:2]
    return f"libprotean.so.{major}.{minor}" if major == "0" else f"libprotean.so.{major}"


def names(text):
    return [line for line in text.splitlines() if line and not line.startswith("#")]


problems = []
found = set()
for line in output(nm, "-D", "-C", "--defined-only", library).splitlines():
    kind, name = line.split(None, 2)[1:] if line[0] != " " else line.split(None, 1)
    name = re.sub(r"@@?PROTEAN_[0-9.]+$", "", name)
    if kind != "A":  # the version itself
        found.add(name)
for name in sorted(found):
    bare = re.sub(r"^(vtable|typeinfo|typeinfo name|VTT|guard variable|construction vtable|(non-)?virtual thunk)"
                  r" (for|to) ", "", name)
    bare = re.sub(r"\[abi:\w+\]", "", bare)
    if not re.match(r"(.* )?protean::|protean_\w+$", bare):
        problems.append(f"{name}: outside of namespace protean")

text = re.sub(r"/\*.*?\*/", "", (source / "interfaces/c/protean.h").read_text(), flags=re.S)
text = re.sub(r"static inline [^{]*\{.*?\n\}", "", text, flags=re.S)  # functions of the program
declared = set(re.findall(r"\b(protean_\w+)\s*\(", text)) - set(re.findall(r"\(\s*\*\s*(protean_\w+)\s*\)", text))
shown = {name for name in found if re.fullmatch(r"protean_\w+", name)}
problems += [f"{name}: declared in protean.h, not in the library" for name in sorted(declared - shown)]
problems += [f"{name}: in the library, not declared in protean.h" for name in sorted(shown - declared)]

soname = re.search(r"\(SONAME\).*\[(.*)\]", output(readelf, "-d", library))
if not soname or soname[1] != soname_of(version):
    problems.append(f"the soname is {soname and soname[1]}, and should be {soname_of(version)}")

if write and cuda:
    cuda_page.write_text("# What libprotean.so shows beside symbols.txt where it was built with CUDA. "
                         "tests/install/public_symbols.py --cuda --write\n# writes this file, a test compares it.\n"
                         + "".join(f"{name}\n" for name in sorted(found - set(names(page.read_text())))))
elif write:
    page.write_text("# What libprotean.so shows. tests/install/public_symbols.py --write writes this file, a test "
                    "compares it.\n"
                    + "".join(f"{name}\n" for name in sorted(found)))
wanted = set(names(page.read_text()))
if cuda:
    wanted |= set(names(cuda_page.read_text()))
lists = "docs/abi/symbols.txt" + (" and symbols-cuda.txt" if cuda else "")
problems += [f"{name}: in {lists}, not in the library" for name in sorted(wanted - found)]
problems += [f"{name}: in the library, not in {lists}" for name in sorted(found - wanted)]

# The last version, if it is known.
tag = subprocess.run(["git", "-C", source, "describe", "--tags", "--abbrev=0"], capture_output=True, text=True)
before = subprocess.run(["git", "-C", source, "show", f"{tag.stdout.strip()}:docs/abi/symbols.txt"],
                        capture_output=True,
                        text=True) if tag.returncode == 0 else None
if before and before.returncode == 0:
    gone = sorted(set(names(before.stdout)) - found)
    print(f"{len(gone)} symbols of {tag.stdout.strip()} are gone")
    if soname_of(tag.stdout.strip().lstrip("v")) == soname_of(version):
        problems += [f"{name}: gone since {tag.stdout.strip()}, with the same soname" for name in gone]
else:
    print("no tag with a list of symbols to compare with")

for problem in problems[:60]:
    print(problem)
print(f"{len(found)} symbols, {len(problems)} problems")
sys.exit(1 if problems or not found else 0)

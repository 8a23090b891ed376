#!/usr/bin/env python3
"""Compares interfaces/fortran/protean.f90 with protean.h: the module has each enum with its values, each struct with
its members in their order and of their types, and each function, under its name in the library.

fortran_mirror.py PROTEAN_H PROTEAN_F90
"""
import pathlib
import re
import sys

header, module = (pathlib.Path(path).read_text() for path in sys.argv[1:])
header = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
module = re.sub(r"&\s*\n\s*", "", re.sub(r"!.*", "", module))
TYPES = {"int": "integer(c_int)", "int64_t": "integer(c_int64_t)", "double": "real(c_double)",
         "const char*": "type(c_ptr)"}
problems = []


def same(what, of_c, of_fortran):
    if of_c != of_fortran:
        problems.append(f"{what}: {of_c} in C, {of_fortran} in Fortran")


def values(lines):
    """The enumerators of "A = 1, B, C = 7" with their numbers."""
    found, number = {}, -1
    for one in filter(None, (one.strip() for one in lines.split(","))):
        name, _, value = (part.strip() for part in one.partition("="))
        number = int(value) if value else number + 1
        found[name] = number
    return found


def members_of_c(lines):
    found = []
    for line in filter(None, (" ".join(line.split()) for line in lines.split(";"))):
        kind, names = re.fullmatch(r"(const char(?= ?\*)|\w+) ?(.*)", line).groups()
        for name in (name.strip() for name in names.split(",")):
            found.append((name.lstrip("* "), TYPES[kind + "*" if name.startswith("*") else kind]))
    return found


def members_of_fortran(lines):
    found = []
    for line in filter(None, (line.strip() for line in lines.splitlines())):
        kind, names = line.split(" :: ")
        found += [(name.strip(), kind) for name in names.split(",")]
    return found


enums = {}
for text in re.findall(r"typedef enum \w+ \{(.*?)\}", header, re.S):
    enums |= values(text)
mirrored = {}
for text in re.findall(r"enumerator :: (.*)", module):
    mirrored |= values(text)
same("enumerators", enums, mirrored)

structs = dict(re.findall(r"typedef struct (\w+) \{(.*?)\}", header, re.S))
types = dict(re.findall(r"type, bind\(c\) :: (\w+)\n(.*?)end type", module, re.S))
same("structs", sorted(structs), sorted(types))
for name in structs.keys() & types.keys():
    same(name, members_of_c(structs[name]), members_of_fortran(types[name]))

functions = re.sub(r"static inline [^{]*\{.*?\n\}", "", header, flags=re.S)
functions = (set(re.findall(r"\b(protean_\w+)\s*\(", functions))
             - set(re.findall(r"\(\s*\*\s*(protean_\w+)\s*\)", functions)))
abstract, rest = module.split("abstract interface", 1)[1].split("end interface", 1)
bound = set(re.findall(r"bind\(c, ?name='(\w+)'\)", rest))
bound |= set(re.findall(r"(?:function|subroutine) (\w+)\([^)]*\) ?bind\(c\)", rest))
same("functions", sorted(functions - bound), sorted(bound - functions))

print("\n".join(problems))
print(f"{len(enums)} enumerators, {len(structs)} structs, {len(functions)} functions, {len(problems)} problems")
sys.exit(1 if problems or not (enums and structs and functions) else 0)

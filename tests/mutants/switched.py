"""Puts drawn mutants as switches into a copy of the sources, and asks the compiler which of them are programs.

Switches may lie in one another, other than those of rewrite.py: two mutants of one line are often drawn.
Standard library only.
"""
import collections
import concurrent.futures
import dataclasses
import json
import pathlib
import re
import shlex
import subprocess

import pieces
from rewrite import Refused, places_of, tokens_of

ERROR = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: ", re.MULTILINE)
PLACE = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?P<column>\d+): ", re.MULTILINE)
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
ACTIVE = re.compile(r"active\s*==\s*\((\d+)\)")
# Most words that stand around a piece in its anchor.
WIDEST_ANCHOR = 400


@dataclasses.dataclass
class Drawn:
    """A mutant of a line, and the piece of code that has its switch. `anchor` is there once in the file; the piece is
    its words [skip, skip + length)."""
    id: int
    room: str
    file: str
    line: int
    rule: str
    original: str
    mutated: str
    kind: str = ""
    anchor: str = ""
    skip: int = 0
    length: int = 0
    instead: str = ""


def anchored(source: pieces.Source, drawn: Drawn, piece: pieces.Piece, change: pieces.Change) -> Drawn:
    """The mutant with the piece, and as few words around it as make it unique in its file."""
    for around in range(2, WIDEST_ANCHOR, 6):
        first, last = max(0, piece.begin - around), min(len(source.words), piece.end + around)
        words = source.words[first:last]
        if len(places_of(words, source.words)) == 1:
            instead = change.text if piece.kind == "insertion" else source.instead(piece, change)
            return dataclasses.replace(drawn, kind=piece.kind, anchor=" ".join(words), skip=piece.begin - first,
                                       length=piece.end - piece.begin, instead=instead)
    raise Refused(f"mutant {drawn.id}: no anchor for its place in {drawn.file}")


def place(source: pieces.Source, drawn: Drawn):
    """(begin, end) of its piece in the text. Raises Refused where the file has changed there."""
    anchor = [word for word, _, _ in tokens_of(drawn.anchor)]
    found = places_of(anchor, source.words)
    if len(found) != 1:
        raise Refused(f"mutant {drawn.id}: its code is {len(found)} times in {drawn.file}; it must be there once")
    begin = found[0] + drawn.skip
    if drawn.kind == "insertion":
        offset = source.tokens[begin - 1][2]
        return offset, offset
    return source.tokens[begin][1], source.tokens[begin + drawn.length - 1][2]


def switch(drawn: Drawn, original: str) -> str:
    """The marks say to whom a message of the compiler belongs."""
    test, number = f"PROTEAN_MUTANT({drawn.id})", drawn.id
    instead = f"/*<{number}*/ {drawn.instead} /*{number}>*/"
    if drawn.kind == "insertion":
        return f" /*[{number}*/ if ({test}) {{\n{instead}\n}} /*{number}]*/ "
    if drawn.kind == "statement":
        return f"/*[{number}*/ {{ if ({test}) {{\n{instead}\n}} else {{\n{original}\n}} }} /*{number}]*/"
    return f"/*[{number}*/ ({test} ? (\n{instead}\n) : (\n{original}\n)) /*{number}]*/"


def rewritten(text: str, mutants, header: pathlib.Path):
    """(text with the switches, mutants that cross another one or have no place any more)."""
    source, placed, refused = pieces.Source(text), [], []
    for mutant in mutants:
        try:
            placed.append((*place(source, mutant), mutant))
        except Refused:
            refused.append(mutant)
    kept = []
    for begin, end, mutant in sorted(placed, key=lambda p: p[2].id):
        if any(b < begin < e < end or begin < b < end < e for b, e, _ in kept):
            refused.append(mutant)
        else:
            kept.append((begin, end, mutant))
    kept.sort(key=lambda p: (p[0], p[2].kind != "insertion", -p[1], p[2].id))

    def render(begin: int, end: int, items) -> str:
        out = ""
        while items:
            first, last, mutant = items[0]
            inner = [item for item in items[1:] if item[0] < last and item[1] <= last]
            items = items[1 + len(inner):]
            out += text[begin:first] + switch(mutant, render(first, last, inner))
            begin = last
        return out + text[begin:end]

    body = render(0, len(text), kept)
    head = source.tokens[0][1] if source.tokens else 0
    first_line = re.search(r"^[ \t]*#", text, re.MULTILINE)
    head = min(head, first_line.start()) if first_line else head
    return f'{body[:head]}#include "{header}"\n{body[head:]}', refused


def owners(text: str, line: int, column: int):
    """Mutants whose other code is at this place of a rewritten text; of none, the innermost switch there."""
    begins = [0] + [m.end() for m in re.finditer("\n", text)]
    if line > len(begins):
        return []
    offset = len(text.encode()[:len(text[:begins[line - 1]].encode()) + column - 1].decode(errors="ignore"))
    inside, switches = [], []
    for mark in re.finditer(r"/\*([<\[])(\d+)\*/|/\*(\d+)([>\]])\*/", text[:offset + 1]):
        number = int(mark[2] or mark[3])
        if mark[1]:
            (inside if mark[1] == "<" else switches).append(number)
        elif mark[4] == ">":
            inside.remove(number)
        else:
            switches.remove(number)
    return inside or switches[-1:]


class Compiler:
    """Compiles sources of a tree without making objects. The tree is configured; its precompiled headers are built."""

    def __init__(self, tree: pathlib.Path, build: pathlib.Path):
        self.tree = tree
        self.commands, self.including = {}, collections.defaultdict(set)
        for entry in json.loads((build / "compile_commands.json").read_text()):
            words = [w for w in shlex.split(entry["command"]) if w != "-Werror"]
            if "-o" in words:
                at = words.index("-o")
                words = words[:at] + words[at + 2:]
            path = pathlib.Path(entry["file"])
            if path.is_relative_to(tree):
                self.commands.setdefault(str(path.relative_to(tree)), (words, entry["directory"]))

    def users(self, file: str, most: int = 2):
        """Sources that show whether this file compiles: itself, or sources that include it, also by other headers."""
        if file in self.commands:
            return [file]
        room, stem = file.split("/")[0], pathlib.Path(file).stem
        if not self.including:
            for path in self.tree.rglob("*.[ch]pp"):
                name = path.relative_to(self.tree)
                if name.parts[0] != "build":
                    for other in INCLUDE.findall(path.read_text()):
                        self.including[other].add(str(name))
        seen, level = {file}, [file]
        while level:
            level = sorted({user for f in level for user in self.including[f]} - seen)
            seen |= set(level)
            found = [f for f in level if f in self.commands]
            if found:
                found.sort(key=lambda f: (pathlib.Path(f).stem != stem, not f.startswith(room), f))
                return found[:most]
        return []

    def run(self, file: str, *more):
        words, folder = self.commands[file]
        command = [*words, "-w", "-fdiagnostics-color=never", "-fdiagnostics-column-unit=byte", "-fmax-errors=0", *more]
        done = subprocess.run(command, cwd=folder, text=True, errors="replace", capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def active(self, file: str):
        """Numbers of the mutants that are in this source after its preprocessor."""
        status, out, _ = self.run(file, "-E")
        return {int(number) for number in ACTIVE.findall(out)} if status == 0 else set()

    def blamed(self, output: str, texts: dict):
        """(mutants that the messages point at, is there an error that points at none?). The place of the error counts
        first, then from where its template is used, which is said before it, then its notes."""
        guilty, lost, known = set(), False, {}

        def at(m):
            path = pathlib.Path(m["file"])
            name = str(path.relative_to(self.tree)) if path.is_absolute() and path.is_relative_to(self.tree) else ""
            key = (name, int(m["line"]), int(m["column"]))
            if name in texts and key not in known:
                known[key] = owners(texts[name], *key[1:])
            return known.get(key, [])

        errors = list(ERROR.finditer(output))
        for number, error in enumerate(errors):
            before = errors[number - 1].end() if number else 0
            after = errors[number + 1].start() if number + 1 < len(errors) else len(output)
            used = [m for m in PLACE.finditer(output[before:error.start()]) if
                    re.match(r"[^\n]*(?:required |inlined from|expansion of|In )", m.string[m.end():])]
            found = at(error)
            for m in [*reversed(used), *PLACE.finditer(output[error.start():after])]:
                found = found or at(m)
            lost |= not found
            guilty |= set(found)
        return guilty, lost


def in_parallel(jobs: int, function, items):
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(function, items))

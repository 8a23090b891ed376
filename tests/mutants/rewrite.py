"""Puts the mutants of tests/mutants/*.json as switches into a copy of the sources. Standard library only.

A mutant names a file, a piece of its code that is there exactly once, the part of it that is wrong in the mutant,
and what stands there instead. Comments and white space do not matter: tokens are compared, so that neither
reformatting nor new comments break a mutant. An expression A becomes (PROTEAN_MUTANT(17) ? (B) : (A)), a statement
becomes { if (PROTEAN_MUTANT(17)) { B } else { A } }.
"""
import dataclasses
import hashlib
import json
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parent
SWITCH = FOLDER / "switch.hpp"
KEYS = {"id", "file", "code", "part", "instead", "breaks", "first", "equivalent"}
TOKENS = re.compile(r"""
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/|\\\n)
  | R"\w*\(.*?\)\w*" | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])+'
  | [A-Za-z_]\w* | \.?\d(?:[eEpP][+-]|'?[\w.])* | .
""", re.VERBOSE | re.DOTALL)


class Refused(Exception):
    """A mutant that does not fit the sources; the message names it and says why."""


@dataclasses.dataclass
class Mutant:
    id: int
    room: str
    file: str
    code: str
    part: str
    instead: str
    breaks: str
    first: list
    equivalent: str = ""

    @property
    def form(self) -> str:
        """What the mutant changes, as a short text: a result belongs to the form that was run."""
        words = "\n".join(" ".join(token for token, _, _ in tokens_of(text))
                          for text in (self.code, self.part, self.instead))
        return hashlib.sha256(words.encode()).hexdigest()[:12]


def tokens_of(text: str):
    """[(token, begin, end)] without white space and comments."""
    return [(m.group(), m.start(), m.end()) for m in TOKENS.finditer(text) if m.group("skip") is None]


def places_of(wanted, tokens):
    """Indices in `tokens`, a list of words, at which the words `wanted` begin."""
    size = len(wanted)
    return [i for i in range(len(tokens) - size + 1) if tokens[i] == wanted[0] and tokens[i:i + size] == wanted]


def read_mutants(folder: pathlib.Path = FOLDER):
    """All mutants, in the order of their numbers. Raises Refused for a file that is not as it should be."""
    mutants, seen = [], {}
    for path in sorted(folder.glob("*.json")):
        for entry in json.loads(path.read_text())["mutants"]:
            number = entry.get("id")
            if unknown := set(entry) - KEYS:
                raise Refused(f"{path.name}: mutant {number} has the unknown keys {sorted(unknown)}")
            for key in ("id", "file", "code", "instead", "breaks", "first"):
                if key not in entry:
                    raise Refused(f"{path.name}: mutant {number} has no '{key}'")
            if number in seen:
                raise Refused(f"{path.name}: number {number} is used in {seen[number]} too")
            seen[number] = path.name
            mutants.append(Mutant(room=path.stem, part=entry.get("part", entry["code"]),
                                  **{k: v for k, v in entry.items() if k != "part"}))
    return sorted(mutants, key=lambda mutant: mutant.id)


def switched(mutant: Mutant, original: str) -> str:
    """The code with the switch in it."""
    test, statement = f"PROTEAN_MUTANT({mutant.id})", original.rstrip().endswith((";", "}"))
    if statement:
        return f"{{ if ({test}) {{ {mutant.instead} }} else {{ {original} }} }}"
    return f"({test} ? ({mutant.instead}) : ({original}))"


def span_of(mutant: Mutant, words, tokens):
    """Where the part begins and ends in the text of the file. Raises Refused unless it is there exactly once."""
    code = [token for token, _, _ in tokens_of(mutant.code)]
    part = [token for token, _, _ in tokens_of(mutant.part)]
    found = places_of(code, words)
    if len(found) != 1:
        raise Refused(f"mutant {mutant.id}: its code is {len(found)} times in {mutant.file}; it must be there once:"
                      f" {mutant.code}")
    inside = places_of(part, code)
    if len(inside) != 1:
        raise Refused(f"mutant {mutant.id}: its part is {len(inside)} times in its code; it must be there once:"
                      f" {mutant.part}")
    first = found[0] + inside[0]
    return tokens[first][1], tokens[first + len(part) - 1][2]


def rewritten(text: str, mutants, switch: pathlib.Path):
    """(text with all switches of this file, messages of the mutants that do not fit)."""
    tokens = tokens_of(text)
    words = [token for token, _, _ in tokens]
    spans, refused = [], []
    for mutant in mutants:
        try:
            spans.append((*span_of(mutant, words, tokens), mutant))
        except Refused as error:
            refused.append(str(error))
    spans.sort(key=lambda span: span[0])
    for (_, end, one), (begin, _, other) in zip(spans, spans[1:]):
        if begin < end:
            refused.append(f"mutants {one.id} and {other.id} change the same code of {one.file}")
    if refused:
        return text, refused
    for begin, end, mutant in reversed(spans):
        text = text[:begin] + switched(mutant, text[begin:end]) + text[end:]
    # Behind the comment at the head of the file, which a test of the house rules reads.
    head = tokens[0][1]
    return f'{text[:head]}#include "{switch}"\n{text[head:]}', []


def apply(mutants, source: pathlib.Path, switch: pathlib.Path):
    """{path: new text} for all files with mutants. Raises Refused, with all that does not fit."""
    texts, refused = {}, []
    for file in sorted({mutant.file for mutant in mutants}):
        path = source / file
        if not path.is_file():
            refused.append(f"mutants of {file}: there is no such file")
            continue
        texts[file], more = rewritten(path.read_text(), [m for m in mutants if m.file == file], switch)
        refused += more
    if refused:
        raise Refused("\n".join(refused))
    return texts

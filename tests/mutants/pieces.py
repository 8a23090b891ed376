"""Finds, for a changed line of C++, the pieces of code that a switch can be put around. Standard library only.

A mutant drawn by a program is a line with another text. A switch needs a whole expression or statement: `pieces_for`
names those that contain the change, the smallest first. There is no C++ parser here: brackets, commas, semicolons and
the first words of a statement decide, and the compiler says which of the pieces is one.
"""
import bisect
import dataclasses
import re

from rewrite import tokens_of

CLOSING = {"(": ")", "[": "]", "{": "}"}
OPENING = {")": "(", "]": "[", "}": "{"}
DIRECTIVE = re.compile(r"^[ \t]*#[^\n]*(?:\\\n[^\n]*)*", re.MULTILINE)
CONTROL = {"if", "for", "while", "switch", "do", "try"}
JUMPS = {"return", "throw", "break", "continue", "co_return", "goto"}
DECLARES = {"const", "constexpr", "auto", "static", "using", "typedef", "template", "struct", "class", "enum", "union",
            "namespace", "friend", "inline", "extern", "virtual", "explicit", "static_assert", "mutable", "unsigned",
            "signed", "public", "private", "protected", "operator", "typename", "thread_local", "requires", "concept"}


@dataclasses.dataclass
class Change:
    """Tokens [begin, end) of a file become the words `instead`, whose text is `text`. `before` and `after` are what
    stands between it and its neighbours: nothing where they are one operator, as in `<` and `=`."""
    begin: int
    end: int
    instead: list
    text: str
    before: str
    after: str


@dataclasses.dataclass
class Piece:
    """Tokens [begin, end); kind: expression, statement or insertion (nothing is replaced, begin = end)."""
    begin: int
    end: int
    kind: str


class Source:
    """The tokens of a file, without comments and directives, and its brackets."""

    def __init__(self, text: str):
        self.text = text
        self.tokens = tokens_of(DIRECTIVE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text))
        self.words = [word for word, _, _ in self.tokens]
        self.partner, self.parent, self.broken = {}, [], False
        open_ones = []
        for index, word in enumerate(self.words):
            if word in OPENING:
                if not open_ones or self.words[open_ones[-1]] != OPENING[word]:
                    self.broken = True
                    return
                first = open_ones.pop()
                self.partner[first], self.partner[index] = index, first
            self.parent.append(open_ones[-1] if open_ones else -1)
            if word in CLOSING:
                open_ones.append(index)
        self.broken = bool(open_ones)
        self.begins = [begin for _, begin, _ in self.tokens]
        self.ends = [end for _, _, end in self.tokens]
        self.line_begins = [0] + [m.end() for m in re.finditer("\n", text)]

    def tokens_of_line(self, line: int):
        """[begin, end) of the tokens that begin in a line, which counts from 1; None where one reaches out of it."""
        first = self.line_begins[line - 1]
        last = self.line_begins[line] if line < len(self.line_begins) else len(self.text)
        inside = range(bisect.bisect_right(self.ends, first), bisect.bisect_left(self.begins, last))
        if not inside or self.tokens[inside[0]][1] < first or self.tokens[inside[-1]][2] > last:
            return None
        return inside[0], inside[-1] + 1

    def slice(self, begin: int, end: int) -> str:
        return self.text[self.tokens[begin][1]:self.tokens[end - 1][2]] if begin < end else ""

    def instead(self, piece: Piece, change: Change) -> str:
        """The text of the piece with the change in it."""
        return (self.slice(piece.begin, change.begin) + change.before + change.text + change.after +
                self.slice(change.end, piece.end)).strip()

    def inside(self, opener: int):
        return (opener + 1, self.partner[opener]) if opener >= 0 else (0, len(self.words))

    def at_level(self, opener: int, begin: int, end: int):
        return [i for i in range(begin, end) if self.parent[i] == opener]

    def is_block(self, opener: int) -> bool:
        """Are there statements in these braces, or entries of a list?"""
        begin, end = self.inside(opener)
        if begin == end or self.words[begin] in CONTROL | JUMPS:
            return True
        if any(self.words[i] == ";" for i in self.at_level(opener, begin, end)):
            return True
        before = self.words[opener - 1] if opener else ";"
        return before in {")", "else", "do", "try", "const", "noexcept", "override", "mutable", "}", ";", "{"}

    def adjacent(self, index: int) -> bool:
        """Does this token begin where the one before it ends?"""
        return index > 0 and self.tokens[index - 1][2] == self.tokens[index][1]

    def assignment(self, begin: int, end: int, opener: int):
        """The index of the '=' of an assignment or an initializer, at this level; None without."""
        for i in self.at_level(opener, begin, end):
            if self.words[i] != "=" or i == begin:
                continue
            if i + 1 < end and self.words[i + 1] == "=" and self.adjacent(i + 1):
                continue
            if self.adjacent(i) and self.words[i - 1] in "=!":
                continue
            if self.adjacent(i) and self.words[i - 1] in "<>":
                if not (self.adjacent(i - 1) and self.words[i - 2] == self.words[i - 1]):
                    continue
            return i
        return None

    def statement_end(self, begin: int, limit: int) -> int:
        """The index behind the statement that begins here."""
        if begin >= limit:
            return limit
        word = self.words[begin]
        if word == "{":
            return self.partner[begin] + 1
        if word in {"if", "for", "while", "switch"}:
            paren = begin + 1
            while paren < limit and self.words[paren] != "(":
                paren += 1
            if paren >= limit:
                return limit
            end = self.statement_end(self.partner[paren] + 1, limit)
            if word == "if" and end < limit and self.words[end] == "else":
                return self.statement_end(end + 1, limit)
            return end
        if word in {"do", "try", "else"}:
            end = self.statement_end(begin + 1, limit)
            while word == "try" and end < limit and self.words[end] == "catch":
                end = self.statement_end(self.partner[end + 1] + 1, limit)
            if word == "do":
                return self.statement_end(end, limit)
            return end
        if word in {"case", "default", "public", "private", "protected"}:
            i = begin
            while i < limit and not (self.words[i] == ":" and self.words[i - 1] != ":" and self.words[i + 1] != ":"):
                i += 1
            return i + 1
        i = begin
        while i < limit:
            word = self.words[i]
            if word == ";":
                return i + 1
            if word in CLOSING:
                i = self.partner[i] + 1
                if word == "{" and i < limit and re.match(r"\w", self.words[i]) and self.words[i] not in {"and", "or"}:
                    return i  # a function's body
                if word == "{" and i == limit:
                    return i
                continue
            i += 1
        return limit

    def statement_of(self, opener: int, begin: int, end: int):
        """The innermost statement of a block that contains the tokens; None where there is none."""
        first, limit = self.inside(opener)
        while first < limit:
            last = self.statement_end(first, limit)
            if last <= first:
                return None
            if first <= begin and end <= last:
                break
            if begin < last:
                return None  # the change reaches over two statements
            first = last
        else:
            return None
        while True:  # statements without braces inside of control statements
            inner = self.body_with(first, last, begin, end)
            if inner is None:
                return first, last
            first, last = inner

    def body_with(self, first: int, last: int, begin: int, end: int):
        word, bodies = self.words[first], []
        if word in {"if", "for", "while"}:
            paren = self.words.index("(", first)
            body = self.partner[paren] + 1
            bodies.append(body)
            after = self.statement_end(body, last)
            if word == "if" and after < last and self.words[after] == "else":
                bodies.append(after + 1)
        elif word in {"do", "else"}:
            bodies.append(first + 1)
        for body in bodies:
            after = self.statement_end(body, last)
            if body <= begin and end <= after and self.words[body] != "{":
                return body, after
        return None

    def is_declaration(self, first: int, last: int) -> bool:
        word = self.words[first]
        if word in DECLARES:
            return True
        if not re.match(r"[A-Za-z_]", word) or word in CONTROL | JUMPS | {"delete", "else"}:
            return False
        i, angle = first, 0
        while i < last:  # a name with its namespaces and arguments, then a second name
            word = self.words[i]
            if angle == 0 and word in {"(", "[", "."}:
                return False
            if angle == 0 and word == "-" or word in {";", "=", "{"}:
                return False
            if angle == 0 and i > first and re.match(r"[A-Za-z_]", word) and self.words[i - 1] != ":":
                return True
            angle += (word == "<") - (word == ">")
            i += 1
        return False


def change_of(source: Source, line: int, text: str):
    """What becomes of the tokens where the line has this text; None where nothing does, or it cannot be told."""
    tokens = source.tokens_of_line(line)
    if tokens is None:
        return None
    begin, end = tokens
    new_tokens = tokens_of(text)
    new = [word for word, _, _ in new_tokens]
    old = source.words[begin:end]
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    behind = 0
    while behind < min(len(old), len(new)) - same and old[-1 - behind] == new[-1 - behind]:
        behind += 1
    if same == len(old) == len(new):
        return None
    last = len(new) - behind

    def gap(index: int) -> str:
        """Between the new tokens index - 1 and index."""
        if 0 < index < len(new):
            return "" if new_tokens[index - 1][2] == new_tokens[index][1] else " "
        return " "

    changed = text[new_tokens[same][1]:new_tokens[last - 1][2]] if same < last else ""
    return Change(begin + same, end - behind, new[same:last], changed, gap(same), gap(last) if same < last else "")


def is_message(text: str, new: str) -> bool:
    """Do two lines differ only in strings with a blank in them? They are text for a reader."""
    def without(line: str):
        return ['""' if word[0] == '"' and (" " in word or word == '""') else word for word, _, _ in tokens_of(line)]
    return without(text) == without(new)


def balanced(words) -> bool:
    open_ones = []
    for word in words:
        if word in CLOSING:
            open_ones.append(CLOSING[word])
        elif word in OPENING and (not open_ones or open_ones.pop() != word):
            return False
    return not open_ones


def separators(words):
    """The commas and semicolons that are in no brackets."""
    depth, found = 0, []
    for word in words:
        depth += (word in CLOSING) - (word in OPENING)
        if depth == 0 and word in {",", ";"}:
            found.append(word)
    return found


def new_words(source: Source, begin: int, end: int, change: Change):
    return source.words[begin:change.begin] + change.instead + source.words[change.end:end]


def closed(source: Source, change: Change):
    """The smallest [begin, end) around the changed tokens in which each bracket has its partner."""
    begin, end = change.begin, change.end
    if begin == end and ";" in change.instead and 0 < begin < len(source.words):
        begin, end = begin - 1, end + 1
    if begin == end:
        if begin > 0 and source.words[begin - 1] not in OPENING and source.words[begin - 1] not in CLOSING:
            begin -= 1
        elif end < len(source.words) and source.words[end] not in OPENING:
            end += 1
        else:
            begin -= 1
    while True:
        low, high = begin, end
        for i in range(begin, end):
            if i in source.partner:
                low, high = min(low, source.partner[i]), max(high, source.partner[i] + 1)
        if (low, high) == (begin, end):
            return begin, end
        begin, end = low, high


def insertion(source: Source, change: Change):
    """`break;` behind a statement or at the begin of a block is a switch of its own."""
    if change.begin != change.end or change.instead[-1:] != [";"] or change.begin == 0:
        return None
    before = source.words[change.begin - 1]
    after = source.words[change.begin] if change.begin < len(source.words) else ""
    if before not in {";", "}", "{"} or after in {"else", "catch", ")", ",", ";", "."}:
        return None
    return Piece(change.begin, change.begin, "insertion")


def pieces_for(source: Source, change: Change):
    """Pieces that contain the change, the smallest first. The compiler may still refuse each of them."""
    inserted = insertion(source, change)
    if inserted:
        yield inserted
        return
    begin, end = closed(source, change)

    def fits(first: int, last: int) -> bool:
        words = new_words(source, first, last, change)
        inside = first <= change.begin and change.end <= last
        return inside and bool(words) and balanced(words) and not separators(words)

    while True:
        opener = source.parent[begin]
        first, last = source.inside(opener)
        if opener < 0 or (source.words[opener] == "{" and source.is_block(opener)):
            break
        cuts = [i for i in source.at_level(opener, first, last) if source.words[i] in {",", ";"}]
        if not any(begin <= i < end for i in cuts):
            left = max([i + 1 for i in cuts if i < begin], default=first)
            right = min([i for i in cuts if i >= end], default=last)
            equal = source.assignment(left, right, opener)
            colon = next((i for i in source.at_level(opener, left, right) if source.words[opener - 1] == "for" and
                          not cuts and source.words[i] == ":" and source.words[i + 1] != ":" and
                          source.words[i - 1] != ":"), None)
            start = equal if equal is not None else colon
            if start is not None and begin > start and fits(start + 1, right):
                yield Piece(start + 1, right, "expression")
            if colon is None and fits(left, right):
                yield Piece(left, right, "expression")
        begin, end = opener, source.partner[opener] + 1
    found = source.statement_of(opener, begin, end)
    if found is None:
        return
    first, last = found
    equal = source.assignment(first, last, opener)
    if equal is not None and begin > equal and fits(equal + 1, last - 1):
        yield Piece(equal + 1, last - 1, "expression")
    if source.words[first] == "return" and begin > first and fits(first + 1, last - 1):
        yield Piece(first + 1, last - 1, "expression")
    if opener < 0 or source.is_declaration(first, last) or source.words[first] in {"case", "default", "else"}:
        return
    if first <= change.begin and change.end <= last and balanced(new_words(source, first, last, change)):
        yield Piece(first, last, "statement")

"""Reads the text of a query.

    query = any                     an empty text fits everything, as `*` does
    any   = all { OR all }
    all   = no { [AND] no }
    no    = { NOT | "-" } atom
    atom  = "(" any ")" | "*" | field operator value { "," value } | word | word"*" | "phrase" | /regex/

Every error names the character at which it was found.
"""

from __future__ import annotations

import re
from typing import NoReturn

from rota.errors import InvalidQuery
from rota.model.query.check import DEEPEST, LONGEST, MOST_REGEXES, MOST_TERMS, TOO_MANY_REGEXES, check
from rota.model.query.fields import Depth, Field, Searched, find, unknown
from rota.model.query.moments import TimeReader
from rota.model.query.normal import OPERATORS, all_of, any_of, opposite, without_escaped_slashes
from rota.model.query.tree import EVERYTHING, Condition, Seek, Text
from rota.model.query.values import LONGEST_VALUE, Operand, Written, condition, refusal
from rota.model.query.words import is_word, regex
from rota.model.times import Instant
from rota.model.trigger.zones import zone as known_zone

_BLANK = re.compile(r"\s*")
_NAME = re.compile(  # only before a path and an operator: `mail.send` is a text
    r'[A-Za-z][A-Za-z0-9_]*(?=(?:\.(?:[^\s.:=<>!~()",\\]*|"(?:\\.|[^"\\])*"))*(?:[:=<>~]|!=|!~))', re.DOTALL
)
_SEGMENT = re.compile(r'\.(?:([^\s.:=<>!~()",\\]+)|(?="))')
_OPERATOR = re.compile(r"!=|!~|<=|>=|[:=<>~]")
_BARE = re.compile(r'(?:\\.|[^\s(),"\\])+', re.DOTALL)
_BARE_WORD = re.compile(r'(?:\\.|[^\s()"\\])+', re.DOTALL)
_REGEX = re.compile(r"/((?:\\.|[^/\\])+)/(i?)(?=[\s)]|\Z)", re.DOTALL)
_QUOTED = re.compile(r'"((?:\\.|[^"\\])*)"', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_GLOB = re.compile(r"(?:\\.|[^\\*?])*[*?]", re.DOTALL)


def parse(text: object, now: Instant, searched: Searched = Searched.JOBS, zone: str = "UTC") -> Condition:
    """The condition that a text says. Times without an offset are in the zone. Raises InvalidQuery."""
    if not isinstance(text, str) or len(text) > LONGEST:
        raise InvalidQuery(text, None, f"expected a text of at most {LONGEST:,} characters")
    if (strange := re.search("[\0\ud800-\udfff]", text)) is not None:
        raise InvalidQuery(text, strange.start() + 1, "expected a text in UTF-8 without NUL characters")
    try:
        return check(_Reader(text, searched, TimeReader(now, known_zone(zone).name)).query(), searched)
    except InvalidQuery as error:
        raise InvalidQuery(text, error.position, error.problem) from None


class _Reader:
    def __init__(self, text: str, searched: Searched, times: TimeReader) -> None:
        self._text, self._searched, self._times = text, searched, times
        self._at = self._depth = self._terms = self._regexes = 0

    def query(self) -> Condition:
        self._blanks()
        if self._ended:
            return EVERYTHING
        found = self._any()
        if not self._ended:  # only a parenthesis ends the reading before
            self._wrong('this ")" closes nothing')
        return found

    def _any(self) -> Condition:
        parts = [self._all()]
        while self._word("OR"):
            parts.append(self._all())
        return any_of(parts)

    def _all(self) -> Condition:
        parts = [self._no()]
        while True:
            joined = self._word("AND")
            if not joined and (self._ended or self._next == ")" or self._sees("OR")):
                return all_of(parts)
            parts.append(self._no())

    def _no(self) -> Condition:
        negated = False
        while True:
            if self._next == "-":
                self._at += 1
            elif not self._word("NOT"):
                break
            negated = not negated
        found = self._atom()
        self._blanks()
        return opposite(found) if negated else found

    def _atom(self) -> Condition:
        start = self._at
        if self._ended or self._next == ")" or self._next.isspace() or any(map(self._sees, OPERATORS)):
            self._wrong("a condition is missing here")
        if self._next == "(":
            return self._group()
        self._count(start)
        if self._next == '"':
            return self._phrase()
        if self._next == "/":
            return self._regex()
        if (name := _NAME.match(self._text, start)) is not None:
            return self._field(name[0])
        return self._bare_word()

    def _group(self) -> Condition:
        start = self._at
        self._depth += 1
        if self._depth > DEEPEST:
            self._wrong(f"this is nested too deeply: at most {DEEPEST} levels are allowed")
        self._at += 1
        self._blanks()
        found = self._any()
        if self._next != ")":
            self._wrong('this "(" is not closed', start)
        self._at += 1
        self._depth -= 1
        return found

    # Texts without a field

    def _phrase(self) -> Condition:
        start = self._at
        text = self._quoted()
        if not text:
            self._wrong("the text in quotes is empty", start)
        if self._next == "*":
            self._at += 1
            self._apart()
            return Text(Seek.PREFIX, text)
        self._apart()
        return Text(Seek.PHRASE, text)

    def _regex(self) -> Condition:
        start = self._at
        if (found := _REGEX.match(self._text, start)) is None:
            self._wrong('a regular expression ends with "/" and a blank; a path goes in quotes: "/var/log"')
        pattern = ("(?i)" if found[2] else "") + without_escaped_slashes(found[1])
        self._regexes += 1
        if self._regexes > MOST_REGEXES:
            self._wrong(TOO_MANY_REGEXES, start)
        try:
            regex(pattern)
        except ValueError as error:
            self._wrong(f"the regular expression is not valid: {error}", start)
        self._at = found.end()
        return Text(Seek.REGEX, pattern)

    def _bare_word(self) -> Condition:
        start = self._at
        if (found := _BARE_WORD.match(self._text, start)) is None:
            self._wrong('a "\\" needs a character after it')
        raw = found[0]
        if (operator := _OPERATOR.match(raw)) is not None:
            self._wrong(f'the name of a field is missing before "{operator[0]}"; blanks go around no operator: took>5m')
        self._at = found.end()
        self._apart()
        if raw == "*":
            return EVERYTHING
        begins = raw.endswith("*") and not raw.endswith("\\*")
        if "*" in _ESCAPE.sub("", raw[:-1] if begins else raw):
            self._wrong('a "*" stands at the end of a word only; quote the text, or write it as /a regex.*/', start)
        text = _ESCAPE.sub(r"\1", raw[:-1] if begins else raw)
        seek = Seek.PREFIX if begins else Seek.WORD if is_word(text) else Seek.PHRASE
        return Text(seek, text)

    # Fields

    def _field(self, name: str) -> Condition:
        start = self._at
        self._at += len(name)
        field = find(name, self._searched)
        if field is None:
            self._wrong(unknown(name, self._searched), start)
        path = self._path()
        self._check_path(field, path, start)
        if (operator := _OPERATOR.match(self._text, self._at)) is None:
            self._wrong(f'after "{field.name}" one of : = != < <= > >= ~ is expected')
        if (problem := refusal(field, operator[0])) is not None:
            self._wrong(problem)
        self._at = operator.end()
        return condition(Operand(field, path, self._times), operator[0], self._values(field))

    def _path(self) -> tuple[str, ...]:
        path: list[str] = []
        while self._next == ".":
            if (found := _SEGMENT.match(self._text, self._at)) is None:
                self._wrong("a name is missing after the dot")
            self._at = found.end()
            path.append(found[1] if found[1] is not None else self._quoted())
        return tuple(path)

    def _check_path(self, field: Field, path: tuple[str, ...], start: int) -> None:
        if path and field.depth is Depth.NONE:
            self._wrong(f'"{field.name}" has no parts', start + len(field.name))
        if not path and field.depth is Depth.NEEDED:
            self._wrong(f'"{field.name}" needs the name of a value: {field.name}.NAME', start)

    def _values(self, field: Field) -> list[Written]:
        values = [self._value(field)]
        while self._next == ",":
            self._at += 1
            self._count(self._at)
            values.append(self._value(field))
        self._apart()
        return values

    def _value(self, field: Field) -> Written:
        start = self._at
        if self._next == '"':
            value = Written(self._quoted(), start + 1, quoted=True)
        elif self._next == "(" and field.words:
            self._wrong(f"several values are joined by commas: {field.name}:{','.join(field.words[:2])}")
        elif (found := _BARE.match(self._text, start)) is None:
            self._wrong(f'a value of "{field.name}" is missing here')
        else:
            self._at = found.end()
            value = _bare(found[0], start + 1)
        if len(value.text) > LONGEST_VALUE:
            self._wrong(f"the value is too long: at most {LONGEST_VALUE:,} characters are allowed", start)
        return value

    # Characters

    @property
    def _ended(self) -> bool:
        return self._at >= len(self._text)

    @property
    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _blanks(self) -> None:
        found = _BLANK.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _sees(self, word: str) -> bool:
        end = self._at + len(word)
        return self._text.startswith(word, self._at) and (
            end == len(self._text) or self._text[end].isspace() or self._text[end] in '()"'
        )

    def _word(self, word: str) -> bool:
        seen = self._sees(word)
        if seen:
            self._at += len(word)
            self._blanks()
        return seen

    def _quoted(self) -> str:
        start = self._at
        if (found := _QUOTED.match(self._text, start)) is None:
            self._wrong("this quote is not closed")
        for escape in _ESCAPE.finditer(found[1]):
            if escape[1] not in _ESCAPES:
                place = start + 1 + escape.start()
                self._wrong(f'in quotes "\\{escape[1]}" means nothing; a backslash is written "\\\\"', place)
        self._at = found.end()
        return _ESCAPE.sub(lambda escape: _ESCAPES[escape[1]], found[1])

    def _apart(self) -> None:
        """What ends here must be followed by a blank, `)`, or nothing."""
        if self._next == ",":
            self._wrong("this comma joins nothing")
        if not self._ended and not self._next.isspace() and self._next != ")":
            self._wrong("a blank is missing here, or quotes around the whole text")

    def _count(self, start: int) -> None:
        self._terms += 1
        if self._terms > MOST_TERMS:
            self._wrong(f"there are too many conditions: at most {MOST_TERMS} are allowed", start)

    def _wrong(self, problem: str, at: int | None = None) -> NoReturn:
        raise InvalidQuery(self._text, (self._at if at is None else at) + 1, problem)


def _bare(raw: str, position: int) -> Written:
    escapes = _ESCAPE.findall(raw)
    globs = _GLOB.match(raw) is not None
    return Written(_ESCAPE.sub(r"\1", raw), position, False, globs, bool({"*", "?"} & set(escapes)))

"""The words that every match of a regular expression contains.

A word of the expression is one of the line only if nothing can continue it: it stands between characters that are no
letters, borders, or the ends of the line. If only its beginning is certain it is the beginning of a word. What this
reading does not know makes no statement: then less is excluded, never too much.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from itertools import islice, product
from typing import NamedTuple


class Literal(NamedTuple):
    text: str
    whole: bool  # else a word begins so


# Of each group a match contains at least one.
Groups = list[list[Literal]]
_MOST_GROUPS = 40


class _Kind(Enum):
    LETTER = auto()  # this character, of words in ASCII
    BORDER = auto()  # no character of words in ASCII, or the border of such a word
    GROUP = auto()
    ANY = auto()  # anything, or nothing


class _Atom(NamedTuple):
    kind: _Kind
    text: str = ""
    groups: Groups = []  # noqa: RUF012 - never changed


class _Unsure(Exception):
    """The expression has something that this reading does not know."""


_ANY, _BORDER = _Atom(_Kind.ANY), _Atom(_Kind.BORDER)
_LETTER = re.compile(r"[0-9A-Za-z_]")
_OPENING = re.compile(r"\((?:\?(?:P?<\w+>|[A-Za-z-]*:|(?P<flags>[A-Za-z-]*)(?=\))))?")
_CLASS = re.compile(r"\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]", re.DOTALL)
_REPEAT = re.compile(r"(?:[*?+]|\{(?P<least>\d+)(?:,\d*)?\})\??")
_FOLDS = re.compile(r"\(\?[A-Za-z-]*i")
_ESCAPED_BORDERS, _ESCAPED_ANY = frozenset("bAzsWtnrfva"), frozenset("BdDwS")


def in_regex(pattern: str) -> Groups:
    """`pattern` is one that RE2 takes."""
    try:
        reader = _Reader(pattern)
        groups = reader.alternatives()
        return groups if reader.place == len(pattern) else []
    except (_Unsure, RecursionError):
        return []


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern, self.place = pattern, 0
        # Without case k and s have a third form, which is not ASCII.
        self._unsafe = "kKsS" if _FOLDS.search(pattern) else ""

    def alternatives(self) -> Groups:
        joined = _joined(list(self._sequence()))
        while self._take("|"):
            other = _joined(list(self._sequence()))
            joined = [one + more for one, more in islice(product(joined, other), _MOST_GROUPS)]
        return joined

    def _take(self, text: str) -> bool:
        taken = self._pattern.startswith(text, self.place)
        self.place += len(text) * taken
        return taken

    def _sequence(self) -> Iterator[_Atom]:
        while self.place < len(self._pattern) and self._pattern[self.place] not in "|)":
            atom = self._atom()
            if atom is None:
                continue
            repeat = _REPEAT.match(self._pattern, self.place)
            if repeat is None:
                yield atom
                continue
            self.place = repeat.end()
            optional = repeat[0][0] in "*?" or (repeat["least"] is not None and int(repeat["least"]) == 0)
            yield _ANY if optional or atom.kind is _Kind.LETTER else atom

    def _atom(self) -> _Atom | None:
        char = self._pattern[self.place]
        if char == "(":
            return self._group()
        if char == "[":
            found = _CLASS.match(self._pattern, self.place)
            if found is None:
                raise _Unsure
            self.place = found.end()
            return _ANY
        if char in "*+?":
            raise _Unsure
        self.place += 1
        if char == "\\":
            return self._escaped()
        return _ANY if char == "." else self._character(char)

    def _escaped(self) -> _Atom:
        char = self._pattern[self.place : self.place + 1]
        self.place += 1
        if char in _ESCAPED_BORDERS:
            return _BORDER
        if char in _ESCAPED_ANY:
            return _ANY
        if not char or char.isalnum():
            raise _Unsure
        return self._character(char)

    def _character(self, char: str) -> _Atom:
        if not _LETTER.match(char):
            return _BORDER
        return _ANY if char in self._unsafe else _Atom(_Kind.LETTER, char)

    def _group(self) -> _Atom | None:
        opening = _OPENING.match(self._pattern, self.place)
        if opening is None or (self._pattern.startswith("(?", self.place) and opening[0] == "("):
            raise _Unsure
        self.place = opening.end()
        groups = self.alternatives()
        if not self._take(")"):
            raise _Unsure
        return None if opening["flags"] is not None else _Atom(_Kind.GROUP, groups=groups)


def _joined(atoms: list[_Atom]) -> Groups:
    """What a sequence of atoms needs: its words, and what its groups need."""
    groups = [group for atom in atoms if atom.kind is _Kind.GROUP for group in atom.groups]
    begin = 0
    while begin < len(atoms):
        end = begin
        while end < len(atoms) and atoms[end].kind is _Kind.LETTER:
            end += 1
        if end > begin and begin and atoms[begin - 1].kind is _Kind.BORDER:
            whole = end < len(atoms) and atoms[end].kind is _Kind.BORDER
            groups.append([Literal("".join(atom.text for atom in atoms[begin:end]), whole)])
        begin = end + 1
    return groups

"""Finds the lines of a text that contain something: one scan over all of them, not a look at each.

Places are those of lines' first bytes. A scan goes from the beginning of a line to the line feed of another one.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import re2

from rota.lines.words import LETTERS
from rota.model.query.tree import Seek, Text
from rota.model.query.words import folded

_LETTERS = frozenset(LETTERS)
_NO_LETTER = re.compile(rb"[^0-9a-zA-Z_\x80-\xff]")
# Enough for thousands of alternatives. What needs more is refused when the query is checked.
_MEMORY = 1 << 20
# With these an expression means something else in a text of many lines than in one line.
_OF_WHOLE_TEXT = re.compile(r"\\[AzC]|\(\?[A-Za-z]*-[A-Za-z]*m")


def with_text(lowered: bytes, begin: int, end: int, wanted: Text) -> set[int]:
    """Lines with a word, a phrase or a prefix; the text is without the case of ASCII letters."""
    part = folded(wanted.text).encode()
    if b"\n" in part or b"\r" in part:
        return set()
    left, right = part[0] in _LETTERS, part[-1] in _LETTERS and wanted.seek is not Seek.PREFIX
    found: set[int] = set()
    place = lowered.find(part, begin, end)
    while place >= 0:
        behind = place + len(part)
        if (left and place and lowered[place - 1] in _LETTERS) or (right and lowered[behind] in _LETTERS):
            following = _behind_word(lowered, place, end)
        else:
            found.add(lowered.rfind(b"\n", 0, place) + 1)
            following = lowered.find(b"\n", behind, end)
        place = lowered.find(part, following, end) if following >= 0 else -1
    return found


def _behind_word(text: bytes, place: int, end: int) -> int:
    """Where the next occurrence can begin. One that begins with a letter stands behind another character, so a long
    word is passed in one step."""
    found = _NO_LETTER.search(text, place, end)
    return found.end() if found else -1


def with_regex(text: bytes, begin: int, end: int, regex: Any) -> set[int]:
    """`regex`: by `in_lines`."""
    found: set[int] = set()
    search = regex.search
    place = begin
    while place >= 0:
        match = search(text, place, end)
        if match is None:
            break
        start = match.start()
        found.add(text.rfind(b"\n", 0, start) + 1)
        place = text.find(b"\n", start, end) + 1 or -1
    return found


def by_lines(pattern: str) -> bool:
    """Whether a text of many lines may be scanned for the expression."""
    return _OF_WHOLE_TEXT.search(pattern) is None


@lru_cache(maxsize=128)
def in_lines(pattern: str) -> Any:
    """The expression for texts of many lines: no match crosses a line feed."""
    options = re2.Options()
    options.log_errors, options.never_nl, options.never_capture = False, True, True
    options.max_mem = _MEMORY
    return re2.compile("(?m)" + pattern, options)

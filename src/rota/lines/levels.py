"""The level of a line: one of `LEVELS`, or None.

Records of Python's logging (stream `log`) begin with their level. Programs write it in many ways, so their lines get a
look at their first bytes: a member `level` of JSON or logfmt, a level in brackets or in capitals near the beginning, or
a level and a colon as the first word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import re2

from rota.model.query.fields import LEVELS

# How programs name the levels, in lower case. The numbers are those of bunyan and pino, in JSON.
NAMES: dict[str, tuple[str, ...]] = {
    "debug": ("debug", "trace", "verbose", "10", "20"),
    "info": ("info", "information", "notice", "30"),
    "warning": ("warning", "warn", "40"),
    "error": ("error", "err", "severe", "50"),
    "critical": ("critical", "fatal", "crit", "alert", "emerg", "emergency", "panic", "60"),
}
# A member is looked for in so many bytes, a word in so many.
_LOOK, _NEAR = 1024, 80

_LEVEL_OF = {name.encode(): level for level, names in NAMES.items() for name in names}
_WORDS = "|".join(sorted((name for names in NAMES.values() for name in names if name.isalpha()), key=len, reverse=True))
_RECORD = re.compile(rf"({_WORDS.upper()}) ".encode())
_KEY_WORDS = ("level", "lvl", "severity", "levelname")
_KEYS = "|".join((*_KEY_WORDS, r"log\.level"))
_MEMBER = re.compile(rf"""(?i:["' ,{{](?:{_KEYS})["']? ?[:=] ?["']?({_WORDS}|[1-6]0)(?![0-9a-z_]))""".encode())
_WORD = re.compile(rf"(?<![A-Za-z0-9_\x80-\xff])({_WORDS.upper()})(?![A-Za-z0-9_\x80-\xff])".encode())
_BRACKETS = re.compile(rf"(?i:[\[<(]({_WORDS})[\])>])".encode())
_FIRST = re.compile(rf"(?i:({_WORDS}):)".encode())


def level_of(line: bytes, stream: str) -> str | None:
    if stream == "log":
        found = _RECORD.match(line)
    else:
        near = line[:_NEAR]
        found = (
            _MEMBER.search(b" " + line[:_LOOK]) or _WORD.search(near) or _BRACKETS.search(near) or _FIRST.match(near)
        )
    return None if found is None else _LEVEL_OF[found[1].lower()]


def words_of_levels(levels: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Each line of one of these levels has a word of both groups: a number is a level only as a member."""
    names = [name for level in levels for name in NAMES[level]]
    texts = [name for name in names if name.isalpha()]
    return tuple(names), (*texts, *_KEY_WORDS) if len(texts) < len(names) else tuple(texts)


@cache
def hint(levels: tuple[str, ...]) -> Any:
    """An expression of RE2 that finds something in each line of these levels, and in few others."""
    options = re2.Options()
    options.log_errors, options.never_nl, options.never_capture = False, True, True
    names = [name for level in levels for name in NAMES[level]]
    words = "|".join(name for name in names if name.isalpha())
    numbers = "|".join(name for name in names if name.isdigit())
    return re2.compile(rf"(?i)\b(?:{words})\b|[:=] ?[\"']?(?:{numbers})\b", options)


assert tuple(NAMES) == LEVELS

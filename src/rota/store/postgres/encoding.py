"""Converts ids, globs and texts with NUL characters for PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rota.store.cells import is_id

__all__ = ["clean", "glob", "id_range", "ids_only", "is_id"]

_SHAPE = "00000000-0000-0000-0000-000000000000"


def ids_only(texts: Iterable[str]) -> list[str]:
    """Sorted, without duplicates and without texts that are not ids: no job has such an id."""
    return sorted({text for text in texts if is_id(text)})


def id_range(part: str) -> tuple[str, str] | None:
    """The lowest and the highest id that begin with this text, or None if none can."""
    low, high = part + _SHAPE[len(part) :], part + _SHAPE[len(part) :].replace("0", "f")
    return (low, high) if len(part) <= len(_SHAPE) and is_id(low) and is_id(high) else None


def clean(text: str | None) -> str | None:
    """Replaces NUL characters, which PostgreSQL can't store."""
    return text.replace("\0", "\ufffd") if text and "\0" in text else text


def glob(pattern: str) -> str:
    """Converts a glob with `*`, `?` and `[...]` to a regular expression of PostgreSQL."""
    parts: list[str] = []
    place = 0
    while place < len(pattern):
        character = pattern[place]
        place += 1
        if character == "*":
            parts.append(".*")
        elif character == "?":
            parts.append(".")
        elif character == "[" and (end := _end_of_set(pattern, place)):
            parts.append(_set(pattern[place:end]))
            place = end + 1
        elif character == "[":
            return "(?!)"  # an unclosed set matches nothing, as in SQLite
        else:
            parts.append(re.escape(character) if character.isascii() else character)
    return f"(?s)^(?:{''.join(parts)})$"


def _end_of_set(pattern: str, place: int) -> int | None:
    """The position of the `]` that ends the set; a `]` in the first place is a member."""
    first = place + 1 if pattern[place : place + 1] == "^" else place
    end = pattern.find("]", first + 1)
    return end if end > 0 else None


def _set(members: str) -> str:
    """A range must not begin with the end of another range, and a reversed range is empty."""
    negated = members.startswith("^")
    rest = iter(enumerate(inner := members[1:] if negated else members))
    chosen: list[str] = []
    before = ""
    for place, character in rest:
        if character == "-" and before and place + 1 < len(inner):
            _, last = next(rest)
            chosen += [f"{_member(before)}-{_member(last)}"] if before <= last else []
            before = ""
        else:
            chosen.append(_member(character))
            before = "" if place == 0 and character == "]" else character
    if not chosen:
        return "." if negated else "(?!)"
    return f"[{'^' if negated else ''}{''.join(chosen)}]"


def _member(character: str) -> str:
    return f"\\{character}" if character in "\\]^[-" else character

"""Checks a condition, wherever it came from: what passes is safe to translate.

A tree that came over the wire names fields, types and comparisons as it likes; nothing of it is believed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NoReturn

from rota.errors import InvalidQuery
from rota.model.query.fields import Depth, Field, Searched, Type, field_of_term, no_such_word
from rota.model.query.normal import normal
from rota.model.query.tree import All, Any, Condition, How, Not, Seek, Term, Text
from rota.model.query.values import ID, LARGEST, LONGEST_VALUE
from rota.model.query.words import is_word, regex
from rota.model.times import LATEST
from rota.model.times import LONGEST as LONGEST_SPAN

LONGEST = 10_000  # characters: of a text, and of all the values of a tree together
DEEPEST = 40
MOST_TERMS = 200
# Compiling one may take 20 ms and 1 MiB. The caches of compiled ones must have room for several queries with so many.
MOST_REGEXES = 10
TOO_MANY_REGEXES = f"there are too many regular expressions: at most {MOST_REGEXES} are allowed; /a|b/ is one"
LONGEST_PATH = 10
_STRANGE = re.compile("[\0\ud800-\udfff]")


def check(condition: Condition, searched: Searched = Searched.JOBS) -> Condition:
    """The normal form of the condition. Raises InvalidQuery."""
    characters = regexes = 0
    for terms, leaf in enumerate(_leaves(condition), 1):
        if terms > MOST_TERMS:
            _wrong(None, f"there are too many conditions: at most {MOST_TERMS} are allowed")
        regexes += isinstance(leaf, Text) and leaf.seek is Seek.REGEX
        if regexes > MOST_REGEXES:
            _wrong(None, TOO_MANY_REGEXES)
        characters += _check_text(leaf) if isinstance(leaf, Text) else _check_term(leaf, searched)
        if characters > LONGEST:
            _wrong(None, f"its values are too long: together at most {LONGEST:,} characters are allowed")
    return normal(condition)


def _leaves(condition: Condition) -> Iterator[Term | Text]:
    """Without recursion: the depth is not checked yet. A node without leaves counts as a term does."""
    waiting, seen = [(condition, 1)], 0
    while waiting:
        one, depth = waiting.pop()
        seen += 1
        if depth > DEEPEST:
            _wrong(None, f"it is nested too deeply: at most {DEEPEST} levels are allowed")
        if seen > 4 * MOST_TERMS:
            _wrong(None, f"there are too many conditions: at most {MOST_TERMS} are allowed")
        match one:
            case All(of) | Any(of):
                waiting += [(part, depth + 1) for part in of]
            case Not(of):
                waiting.append((of, depth + 1))
            case _:
                yield one


def _check_text(text: Text) -> int:
    if not text.text:
        _wrong(text.text, "a text is missing")
    _check_characters(text.text)
    if text.seek is Seek.WORD and not is_word(text.text):
        _wrong(text.text, "a word has letters, digits and _ only")
    if text.seek is Seek.REGEX:
        try:
            regex(text.text)
        except ValueError as error:
            _wrong(text.text, f"the regular expression is not valid: {error}")
    return len(text.text)


def _check_term(term: Term, searched: Searched) -> int:
    field = field_of_term(term.field, searched)
    if term.how not in field.hows:
        _wrong(term.value, f'"{field.name}" can\'t be compared by "{term.how}"')
    _check_path(field, term.path)
    if isinstance(term.value, str):
        _check_characters(term.value)
    if not _right(field, term):
        _wrong(term.value, f'"{field.name}" is of the type {field.type}: this value does not fit it')
    if field.type is Type.WORD and isinstance(term.value, str) and term.value not in field.words:
        _wrong(term.value, no_such_word(field, term.value))
    return sum(map(len, term.path)) + (len(term.value) if isinstance(term.value, str) else 0)


def _check_path(field: Field, path: tuple[str, ...]) -> None:
    if bool(path) if field.depth is Depth.NONE else not path and field.depth is Depth.NEEDED:
        _wrong(".".join(path), f'"{field.name}" {"has no parts" if path else "needs the name of a value"}')
    if len(path) > LONGEST_PATH:
        _wrong(".".join(path), f"a path has at most {LONGEST_PATH} parts")
    for part in path:
        _check_characters(part)


def _check_characters(text: str) -> None:
    if len(text) > LONGEST_VALUE:
        _wrong(text, f"a value is too long: at most {LONGEST_VALUE:,} characters are allowed")
    if _STRANGE.search(text):
        _wrong(text, "expected texts in UTF-8 without NUL characters")


def _right(field: Field, term: Term) -> bool:
    """Whether the value is of a type that this comparison takes."""
    value = term.value
    if value is None:
        return term.how is How.IS
    if term.how in (How.LIKE, How.HAS):
        return isinstance(value, str) and value != ""
    match field.type:
        case Type.TEXT | Type.WORD:
            return isinstance(value, str)
        case Type.ID:
            return isinstance(value, str) and ID.fullmatch(value) is not None
        case Type.NUMBER:
            return _whole(value, -LARGEST)
        case Type.TIME:
            return _whole(value, 0, LATEST)
        case Type.SPAN:
            return _whole(value, 0, LONGEST_SPAN)
        case Type.JSON:
            return _json(value, term.how)


def _whole(value: object, least: int, most: int = LARGEST) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _json(value: object, how: How) -> bool:
    if isinstance(value, bool):
        return how is How.IS
    return isinstance(value, str) or _whole(value, -LARGEST) or (isinstance(value, float) and math.isfinite(value))


def _wrong(given: object, problem: str) -> NoReturn:
    raise InvalidQuery(given, None, problem)

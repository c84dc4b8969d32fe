"""The normal form of a condition: the same meaning with fewer nodes. The parser returns it, stores are given it, and
the text of a condition reads back as it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from rota.model.query.tree import EVERYTHING, NOTHING, All, Any, Condition, How, Not, Seek, Term, Text

OPERATORS = ("AND", "OR", "NOT")
Leaf = Term | Text


def normal(condition: Condition) -> Condition:
    return replaced(condition, lambda leaf: leaf)


def replaced(condition: Condition, by: Callable[[Leaf], Condition]) -> Condition:
    """The condition with other leaves, in normal form."""
    match condition:
        case All(of):
            return all_of(replaced(one, by) for one in of)
        case Any(of):
            return any_of(replaced(one, by) for one in of)
        case Not(of):
            return opposite(replaced(of, by))
        case leaf:
            changed = by(leaf)
            return _leaf(changed) if isinstance(changed, Term | Text) else changed


def all_of(parts: Iterable[Condition]) -> Condition:
    found: list[Condition] = []
    for part in parts:
        found += part.of if isinstance(part, All) else (part,)
    if NOTHING in found:
        return NOTHING
    return found[0] if len(found) == 1 else All(tuple(found))


def any_of(parts: Iterable[Condition]) -> Condition:
    found: list[Condition] = []
    for part in parts:
        found += part.of if isinstance(part, Any) else (part,)
    if EVERYTHING in found:
        return EVERYTHING
    return found[0] if len(found) == 1 else Any(tuple(found))


def opposite(condition: Condition) -> Condition:
    if isinstance(condition, Not):
        return condition.of
    if condition in (EVERYTHING, NOTHING):
        return NOTHING if condition == EVERYTHING else EVERYTHING
    return Not(condition)


def _leaf(leaf: Leaf) -> Leaf:
    if isinstance(leaf, Text):
        return _text(leaf)
    value = leaf.value
    if leaf.how is How.LIKE and isinstance(value, str):
        value = re.sub(r"\*+", "*", value)
        return Term(leaf.field, leaf.how if re.search(r"[*?]", value) else How.IS, value, leaf.path)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 63:
        return Term(leaf.field, leaf.how, int(value), leaf.path)
    return leaf


def _text(text: Text) -> Text:
    """A word that can't stand without quotes is a phrase, which means the same."""
    if text.seek is Seek.WORD and (text.text in OPERATORS or re.search(r"\s", text.text)):
        return Text(Seek.PHRASE, text.text)
    if text.seek is Seek.REGEX:
        return Text(Seek.REGEX, without_escaped_slashes(text.text))
    return text


def without_escaped_slashes(pattern: str) -> str:
    return re.sub(r"\\(.)", lambda found: "/" if found[1] == "/" else found[0], pattern, flags=re.DOTALL)


def leaves(condition: Condition) -> Iterator[Leaf]:
    match condition:
        case All(of) | Any(of):
            for one in of:
                yield from leaves(one)
        case Not(of):
            yield from leaves(of)
        case leaf:
            yield leaf


def fields_in(condition: Condition) -> set[str]:
    """The names of the fields that it reads."""
    return {leaf.field for leaf in leaves(condition) if isinstance(leaf, Term)}

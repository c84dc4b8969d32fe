"""The words that a segment must contain if a line in it is to fit a condition.

They come in groups: of each group the segment needs at least one word. A condition that holds for lines without certain
words (a negation, a class of characters) needs nothing, and so does an alternative to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product

from rota.lines.levels import words_of_levels
from rota.lines.literals import Literal, in_regex
from rota.lines.words import Probe, may_contain, probe_prefix, probe_word
from rota.model.query.evaluate import OutputLine, line_fits
from rota.model.query.fields import LEVELS
from rota.model.query.tree import All, Any, Condition, Seek, Term, Text

Needs = tuple[frozenset[Probe], ...]
# More groups hardly exclude more, and a group of many words hardly excludes anything.
MOST_GROUPS = 16
LARGEST_GROUP = 40
_RUN = re.compile(r"[0-9A-Za-z_\u0080-\U0010ffff]+")
# Stands for bytes that are no UTF-8; filters have the bytes.
_REPLACED = "\ufffd"


def needs(condition: Condition) -> Needs:
    match condition:
        case All(of):
            return _all(needs(one) for one in of)
        case Any(of):
            return _any([needs(one) for one in of])
        case Text(Seek.REGEX, pattern):
            return in_groups(in_regex(pattern))
        case Text():
            return _of_text(condition)
        case Term(field="level") if condition.value is not None:
            fitting = [level for level in LEVELS if line_fits(condition, OutputLine("", 0, "", 0, level))]
            return in_groups([Literal(word, whole=True) for word in group] for group in words_of_levels(fitting))
        case _:
            return ()


def may_hold(words: bytes, needed: Needs) -> bool:
    """Whether a segment with this filter of words may have what is needed."""
    return all(any(may_contain(words, probe) for probe in group) for group in needed)


def in_order(needed: Needs) -> tuple[tuple[Probe, ...], ...]:
    """The groups as a store takes them."""
    return tuple(tuple(sorted(group)) for group in needed)


def in_groups(found: Iterable[Iterable[Literal]]) -> Needs:
    groups = []
    for literals in found:
        probes = [_probe(literal.text.encode(), literal.whole) for literal in literals]
        if None not in probes:
            groups.append(frozenset(probe for probe in probes if probe is not None))
    return _bounded(groups)


def _of_text(text: Text) -> Needs:
    """The words of a text, which all begin and end with it or within it; the last of a prefix may go on."""
    open_end = len(text.text) if text.seek is Seek.PREFIX else None
    runs = [run for run in _RUN.finditer(text.text) if _REPLACED not in run[0]]
    return in_groups([Literal(run[0], whole=run.end() != open_end)] for run in runs)


def _probe(text: bytes, whole: bool) -> Probe | None:
    return probe_word(text) if whole else probe_prefix(text)


def _all(parts: Iterable[Needs]) -> Needs:
    return _bounded(group for part in parts for group in part)


def _any(parts: list[Needs]) -> Needs:
    """(a and b) or (c and d): a or c, a or d, b or c, b or d."""
    joined = parts[0] if parts else ()
    for part in parts[1:]:
        joined = _bounded(one | other for one, other in product(joined, part))
    return joined


def _bounded(groups: Iterable[frozenset[Probe]]) -> Needs:
    useful = {group for group in groups if 0 < len(group) <= LARGEST_GROUP}
    return tuple(sorted(useful, key=lambda group: (len(group), sorted(group)))[:MOST_GROUPS])

"""Conditions and jobs for property tests, here and of the stores: small pools of values, so that many of them fit."""

from __future__ import annotations

from typing import Any as Anything

from hypothesis import strategies as st

from rota.model.query.fields import Field, Searched, Type, fields_of
from rota.model.query.tree import All, Any, Condition, How, Not, Seek, Term, Text

TEXTS = (
    "mail",
    "mail.send",
    "Mail.SEND",
    "a b",
    "100%",
    "a_b",
    "axb",
    "é",
    "É",
    "*",
    "a\\b",
    'say "x"',
    "-5",
    "..",
    "7",
)
GLOBS = ("mail.*", "*", "?", "a?b", "*%", "*_*", "a\\*", "**b", "x *, (y)")
INSTANTS = (0, 1, 1_700_000_000_000_000, 1_700_000_000_000_001, 1_800_000_000_000_000)
SPANS = (0, 1, 999, 1_000_000, 90_500_000, 5_400_000_000)
NUMBERS = (0, 1, 2, 9, -1, 2**53, 2**63 - 1)
SCALARS = (7, 7.5, "7", "", "true", True, False, 2**53 + 1, 1e22, -0.25, "mail", "Mail")
PATHS = (("x",), ("a b",), ("x", "y"), ("items", "0"), ('q"',), ("a.b", ""))
SEEKS = (
    Text(Seek.WORD, "mail"), Text(Seek.WORD, "OR"), Text(Seek.WORD, "é_1"), Text(Seek.PHRASE, "mail.send"),
    Text(Seek.PHRASE, ' "a\\b" \n'), Text(Seek.PREFIX, "ma"), Text(Seek.PREFIX, "a b"), Text(Seek.REGEX, "ma[ij]l/?x"),
    Text(Seek.REGEX, "(?i)a\\/b \\d"), Text(Seek.REGEX, "\\\\/"),
)  # fmt: skip
_ORDERS = (How.BELOW, How.AT_MOST, How.ABOVE, How.AT_LEAST)
_OF_TYPE: dict[Type, tuple[Anything, ...]] = {
    Type.NUMBER: NUMBERS, Type.TIME: INSTANTS, Type.SPAN: SPANS, Type.ID: ("0192f0c0", "abcd", "ffff-ffff"),
}  # fmt: skip


def terms_of(field: Field) -> st.SearchStrategy[Term]:
    """Every comparison that the field knows, with values of its type."""
    path: st.SearchStrategy[tuple[str, ...]] = st.sampled_from(PATHS) if field.type is Type.JSON else st.just(())
    values: tuple[Anything, ...] = field.words or _OF_TYPE.get(field.type, TEXTS)
    found = [st.builds(Term, st.just(field.name), st.just(How.IS), st.none(), path)]
    if field.type is Type.JSON:
        found.append(st.builds(Term, st.just(field.name), st.just(How.IS), st.sampled_from(SCALARS), path))
        values = tuple(value for value in SCALARS if not isinstance(value, bool))
    else:
        found.append(st.builds(Term, st.just(field.name), st.just(How.IS), st.sampled_from(values), path))
    if field.comparable:
        found.append(st.builds(Term, st.just(field.name), st.sampled_from(_ORDERS), st.sampled_from(values), path))
    if How.LIKE in field.hows:
        found.append(st.builds(Term, st.just(field.name), st.just(How.LIKE), st.sampled_from(GLOBS), path))
        found.append(st.builds(Term, st.just(field.name), st.just(How.HAS), st.sampled_from(TEXTS), path))
    return st.one_of(found)


def conditions(searched: Searched = Searched.JOBS) -> st.SearchStrategy[Condition]:
    leaves = st.one_of(st.one_of(*map(terms_of, fields_of(searched))), st.sampled_from(SEEKS))
    return st.recursive(leaves, _nodes, max_leaves=12)


def _nodes(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    several = st.lists(inner, max_size=3).map(tuple)
    return st.one_of(st.builds(All, several), st.builds(Any, several), st.builds(Not, inner))

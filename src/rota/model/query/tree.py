"""A parsed query: a typed tree of conditions.

The parser makes it from text, with all relative times resolved, so the pages of one search mean the same instants. It
travels as JSON between clients and servers. `evaluate` decides it for one job and is the oracle: stores translate it to
SQL with parameters, and a property test compares.

The logic has two values. A condition on something that is missing (the error of a job that has none) is false, and its
negation is true.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Union

import msgspec


class How(StrEnum):
    """How a term compares its field with its value."""

    IS = "is"  # equal, with case; null: the field is missing
    LIKE = "like"  # fits a glob of `*` and `?`, with case
    HAS = "has"  # contains the text, whatever the case of ASCII letters
    BELOW = "below"
    AT_MOST = "at_most"
    ABOVE = "above"
    AT_LEAST = "at_least"


class Seek(StrEnum):
    """What a text without a field looks for. Words are runs of letters, digits and `_`."""

    WORD = "word"  # the whole word, whatever its case
    PHRASE = "phrase"  # these characters, whatever the case, beginning and ending at the borders of words
    PREFIX = "prefix"  # a word that begins so, whatever the case
    REGEX = "regex"  # a regular expression of RE2, with case unless it says `(?i)`


class Term(msgspec.Struct, frozen=True, tag="term", forbid_unknown_fields=True):
    """A condition on a field. Instants and durations are microseconds."""

    field: str  # a name of `fields.FIELDS`
    how: How
    value: str | int | float | bool | None
    path: tuple[str, ...] = ()  # inside a field that holds JSON: args.user_id


class Text(msgspec.Struct, frozen=True, tag="text", forbid_unknown_fields=True):
    """In a search for jobs: a text in the task, the labels or the error. In a search of output: in the line."""

    seek: Seek
    text: str


class Not(msgspec.Struct, frozen=True, tag="not", forbid_unknown_fields=True):
    of: Condition


class All(msgspec.Struct, frozen=True, tag="all", forbid_unknown_fields=True):
    """All of them hold; of none: true."""

    of: tuple[Condition, ...]


class Any(msgspec.Struct, frozen=True, tag="any", forbid_unknown_fields=True):
    """At least one of them holds; of none: false."""

    of: tuple[Condition, ...]


Condition = Union[Term, Text, Not, All, Any]  # noqa: UP007
EVERYTHING = All(())
NOTHING = Any(())

"""Completion of the conditions of a query, in the words of a shell."""

from __future__ import annotations

from collections.abc import Callable

from rota.model.query.complete import AskedValues, Completion, complete, with_stored
from rota.model.query.fields import JOB_FIELDS, SORTABLE, Depth, Searched

Candidate = tuple[str, str]  # a word and its description
# What a shell would read as more than a text. Some shells quote what they insert, others don't.
_SPECIAL = frozenset(" \t\r\n\"'\\$`&|;<>()*?[]{}!#~")


def conditions(word: str, values: Callable[[AskedValues], list[str]], of_output: bool = False) -> list[Candidate]:
    """The words that may stand in the place of this one. `values` gives those that the store knows."""
    found = complete(word, searched=Searched.OUTPUT if of_output else Searched.JOBS)
    if found.asked is not None:
        found = with_stored(found, values(found.asked))
    head = word[: found.start]
    texts = ((_safely(found, one.text, word), one.meaning) for one in found.candidates)
    return [(head + text, meaning) for text, meaning in texts if text and not _SPECIAL & set(text)]


def _safely(found: Completion, text: str, word: str) -> str:
    """With `:` in the place of `>`, which a shell takes for itself: `took:5m..` is a range."""
    if text.endswith(">"):
        return f"{text[:-1]}:"
    if not word[: found.start].endswith(":") or found.asked is not None or text[0] not in "-0123456789":
        return "" if text == "now" else text
    return f"{text}.."


def orders() -> list[Candidate]:
    """Values of `--sort`."""
    return [(sign + name, "") for sign in ("", "-") for name in SORTABLE]


def columns() -> list[Candidate]:
    return [(f"{field.name}." if field.depth is Depth.NEEDED else field.name, field.meaning) for field in JOB_FIELDS]

"""The words that a shell delivers, as the text of one query.

The words are joined with blanks, so `state:failed user:ann` may stand in quotes of the shell or without. A word with
blanks that is no part of the language is a phrase: in `rota job list 'connection refused' queue:mail` the shell has
taken the quotes away that a person wrote for just that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rota.model.query.fields import Searched, find
from rota.model.query.format import quoted

# Quotes, groups and escapes; a negation; AND, OR, NOT; the beginning of a word; a regular expression.
_SYNTAX = re.compile(
    r"""["()\\]
        | (?<!\S)-\S
        | (?<!\S)(?:AND|OR|NOT)(?!\S)
        | \*(?!\S)
        | (?<!\S)/(?:[^/\\]|\\.)+/i?(?!\S)""",
    re.VERBOSE | re.DOTALL,
)
# What may be the name of a field, and the operator behind it, though none allows blanks before.
_CONDITION = re.compile(r"(?<!\S)([A-Za-z]\w*)(?:\.\S+?)?\s*(?:[:=<>~]|!=|!~)", re.ASCII)


def query_text(words: Sequence[str]) -> str:
    return " ".join(quoted(word) if _is_phrase(word) else word for word in words)


def _is_phrase(word: str) -> bool:
    if len(word.split()) < 2 or _SYNTAX.search(word):
        return False
    # Fields of lines too: a search for jobs then says that it has none. `http://host` is no condition.
    return all(find(name, Searched.OUTPUT) is None for name in _CONDITION.findall(word))

"""How texts are looked for, in jobs as in lines.

Case is ignored for ASCII letters alone, and a word is a run of ASCII letters, digits, `_` and characters beyond ASCII:
databases and a search in bytes of UTF-8 can do exactly the same.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import re2

from rota.model.query.tree import Seek, Text

WORD = r"[0-9A-Za-z_\u0080-\U0010ffff]"
_WHOLE = re.compile(WORD + "+")
_OF_WORD = re.compile(WORD)
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_REGEX_MEMORY = 1 << 20  # bytes of a compiled expression: enough for thousands of alternatives


def folded(text: str) -> str:
    """The text without the case of ASCII letters."""
    return text.translate(_LOWER)


def contains(text: str, part: str) -> bool:
    return folded(part) in folded(text)


def is_word(text: str) -> bool:
    return _WHOLE.fullmatch(text) is not None


def text_fits(wanted: Text, text: str) -> bool:
    """Whether the text is found in this one: the meaning that every faster way must have."""
    if wanted.seek is Seek.REGEX:
        return regex(wanted.text).search(text) is not None
    return bordered(wanted.text, wanted.seek is not Seek.PREFIX).search(text) is not None


@lru_cache(maxsize=256)
def bordered(part: str, whole: bool) -> re.Pattern[str]:
    """The part where no word goes on to its left; and, if it is `whole`, to its right."""
    pattern = "".join(f"[{char}{char.swapcase()}]" if _letter(char) else re.escape(char) for char in part)
    before = f"(?<!{WORD})" if _OF_WORD.match(part[:1]) else ""
    after = f"(?!{WORD})" if whole and _OF_WORD.match(part[-1:]) else ""
    return re.compile(before + pattern + after)


def _letter(char: str) -> bool:
    return char.isascii() and char.isalpha()


@lru_cache(maxsize=128)
def regex(pattern: str) -> Any:
    """A compiled expression of RE2; its time is linear in the text. Raises ValueError that says what is wrong."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _REGEX_MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        problem = error.args[0] if error.args else b""
        text = problem.decode("utf-8", "replace") if isinstance(problem, bytes) else str(problem)
        raise ValueError(text) from None

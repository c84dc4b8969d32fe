"""Globs: names with `*` for any characters and `?` for one. Brackets are literal."""

from __future__ import annotations

import re
from functools import lru_cache


def glob_fits(glob: str, name: str) -> bool:
    return _pattern(glob).fullmatch(name) is not None


@lru_cache(maxsize=1024)
def _pattern(glob: str) -> re.Pattern[str]:
    """Each piece between stars matches at its first place, without backtracking: otherwise the time would grow
    exponentially with the number of stars."""
    first, *rest = (re.escape(piece).replace(r"\?", ".") for piece in glob.split("*"))
    inner = "".join(f"(?>.*?{piece})" for piece in rest[:-1] if piece)
    return re.compile(first + inner + "".join(f".*{piece}" for piece in rest[-1:]), re.DOTALL)

"""What of a folder is not packed: folders that tools make, and what `.rotaignore` names.

`.rotaignore` has a pattern in each line; empty lines and lines with `#` at their beginning are comments. A pattern
without a slash is matched with each name, another one with the path from the folder of the program. `*`, `?` and
`[abc]` stay within one name, `**` stands for any number of folders. A slash at the end: only folders.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from rota.artifacts.faults import InvalidProgram

FILE = ".rotaignore"
LARGEST = 64 << 10
_ALWAYS = {".git", "__pycache__", ".venv"}
_MOST_STARS = 8  # in a pattern: the work of matching grows with each


class Ignored:
    def __init__(self, text: bytes, what: str) -> None:
        self._patterns: list[tuple[list[str], bool, bool]] = []
        for line in _lines(text, what):
            parts = line.strip("/").split("/")
            if line.startswith("!") or not line.strip("/") or {"", ".", ".."} & set(parts):
                right = "lines are names, paths or globs such as `*.csv`; nothing is taken back in with `!`"
                raise InvalidProgram(what, f"{FILE} has the line {line!r}", right)
            if line.count("*") > _MOST_STARS:
                raise InvalidProgram(what, f"{FILE} has the line {line!r}", f"at most {_MOST_STARS} stars are allowed")
            self._patterns.append((parts, "/" in line.rstrip("/"), line.endswith("/")))

    def __call__(self, parts: Sequence[str], folder: bool) -> bool:
        if parts[-1] in _ALWAYS or parts == (FILE,):
            return True
        return any(
            _matches(parts if whole else parts[-1:], pattern)
            for pattern, whole, folders_only in self._patterns
            if folder or not folders_only
        )


def _lines(text: bytes, what: str) -> list[str]:
    if len(text) > LARGEST:
        raise InvalidProgram(what, f"{FILE} has more than {LARGEST >> 10} KiB", "shorten it")
    try:
        lines = [line.strip() for line in text.decode("utf-8").splitlines()]
    except UnicodeDecodeError:
        raise InvalidProgram(what, f"{FILE} is not UTF-8", "save it as UTF-8") from None
    return [line for line in lines if line and not line.startswith("#")]


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[start:], pattern[1:]) for start in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])

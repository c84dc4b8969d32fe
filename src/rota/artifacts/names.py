"""Names of files in programs: those that mean the same on every node, and can't leave their folder."""

from __future__ import annotations

import unicodedata

from rota.artifacts.faults import InvalidProgram
from rota.errors import shown

LONGEST = 255  # bytes; what file systems take
# Control characters and the two separators of lines and paragraphs. Surrogates are no UTF-8.
_REFUSED = {"Cc", "Zl", "Zp", "Cs"}


def checked_name(raw: bytes, what: str) -> str:
    """One name, of a file or folder in its folder."""
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidProgram(what, f"the name {shown(raw)} is not UTF-8", "rename it") from None
    if name in ("", ".", ".."):
        raise InvalidProgram(what, f"{shown(name)} is not a name", "paths lead down from the folder of the program")
    if "/" in name or "\\" in name or any(unicodedata.category(one) in _REFUSED for one in name):
        right = "names have no slash, backslash, line feed or other control character"
        raise InvalidProgram(what, f"the name {shown(name)} is refused", right)
    if len(raw) > LONGEST:
        raise InvalidProgram(what, f"the name {shown(name)} has {len(raw)} bytes", f"at most {LONGEST} are allowed")
    return name


def checked_path(raw: bytes, what: str) -> tuple[str, ...]:
    """The names of a path that leads down, as `unpack` takes it: `a/b`."""
    if raw.startswith(b"/"):
        raise InvalidProgram(what, f"the path {shown(raw)} is absolute", "paths lead down from the folder")
    return tuple(checked_name(name, what) for name in raw.split(b"/"))


def loose_path(raw: bytes, what: str) -> tuple[str, ...]:
    """The same for archives of users, which also write `./a/b` and, for folders, `a/b/`. Empty: the root."""
    inner = raw.removesuffix(b"/") if raw != b"/" else raw
    while inner.startswith(b"./"):
        inner = inner[2:]
    return () if inner in (b".", b"") and raw else checked_path(inner, what)


def folded(name: str) -> str:
    """What file systems that ignore case and the composition of letters hold for the same name."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())

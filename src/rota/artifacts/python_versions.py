"""Which versions of Python will do for a script: `>=3.11,<4`, as PEP 440 says, for the versions that Pythons have."""

from __future__ import annotations

import re
from typing import NamedTuple

from rota.artifacts.faults import InvalidProgram
from rota.errors import shown

_TERM = re.compile(r"(~=|===|==|!=|<=|>=|<|>)\s*(\d+(?:\.\d+){0,3})(\.\*)?")
Version = tuple[int, ...]


class Condition(NamedTuple):
    sign: str
    version: Version
    any_below: bool  # `3.12.*`

    def holds(self, version: Version) -> bool:
        length = max(len(self.version), len(version))
        given, bound = _padded(version, length), _padded(self.version, length)
        begins = given[: len(self.version)] == self.version
        match self.sign:
            case "==" | "===":
                return begins if self.any_below else given == bound
            case "!=":
                return not (begins if self.any_below else given == bound)
            case "~=":
                return given >= bound and given[: len(self.version) - 1] == self.version[:-1]
            case "<=":
                return given <= bound
            case ">=":
                return given >= bound
            case "<":
                return given < bound
            case _:
                return given > bound


def _padded(version: Version, length: int) -> Version:
    return version + (0,) * (length - len(version))


def conditions(text: object, what: str) -> list[Condition]:
    found = [_condition(term.strip()) for term in text.split(",")] if isinstance(text, str) else [None]
    if None in found:
        raise InvalidProgram(what, f"`requires-python` is {shown(text)}", "such as >=3.11 or >=3.11,<4")
    return [one for one in found if one is not None]


def _condition(term: str) -> Condition | None:
    found = _TERM.fullmatch(term)
    if found is None or (found[3] and found[1] not in ("==", "!=")):
        return None
    version = tuple(int(part) for part in found[2].split("."))
    return None if found[1] == "~=" and len(version) == 1 else Condition(found[1], version, bool(found[3]))


def fits(text: str, version: Version, what: str) -> bool:
    return all(one.holds(version) for one in conditions(text, what))

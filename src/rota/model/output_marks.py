"""Marks that stand in an attempt's output for what is left out: by its limit, or by its user's quota.

A later mark replaces an earlier one and counts its bytes too: so marks can be read back.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rota.model.resources import size_text

_MARK = re.compile(
    rb"\n\[rota: ([\d,]{1,30}) bytes \(([\d,]{1,30}) lines\) of output are left out here: the quota of user "
)
_LIMIT = re.compile(
    rb"\n\[rota: ([\d,]{1,30}) bytes \((about )?([\d,]{1,30}) lines\) of output are left out here: "
    rb"the limit is ([\d,]{1,30}) bytes\]\n"
)
# Also the one for bytes that the store could not hold.
_ANY = re.compile(rb"\n\[rota: ([\d,]{1,30}) bytes (?:\((?:about )?([\d,]{1,30}) lines\) )?of output ")


class QuotaMark(NamedTuple):
    size: int = 0
    lines: int = 0

    def and_of(self, body: bytes) -> QuotaMark:
        return QuotaMark(self.size + len(body), self.lines + body.count(b"\n"))

    def text(self, user: str, allowed: int) -> str:
        return (
            f"\n[rota: {self.size:,} bytes ({self.lines:,} lines) of output are left out here: "
            f"the quota of user {user!r} for output, {size_text(allowed)}, is used up]\n"
        )


class LimitMark(NamedTuple):
    size: int
    lines: int
    exact: bool  # the number of lines
    limit: int

    def text(self) -> str:
        about = "" if self.exact else "about "
        return (
            f"\n[rota: {self.size:,} bytes ({about}{self.lines:,} lines) of output are left out here: "
            f"the limit is {self.limit:,} bytes]\n"
        )

    def less(self, size: int, lines: int) -> LimitMark:
        """Some of it is not left out."""
        return self._replace(size=max(self.size - size, 0), lines=max(self.lines - lines, 0))


def read_mark(body: bytes) -> QuotaMark | None:
    """None: it is another mark, such as that of the limit of an attempt."""
    found = _MARK.match(body)
    return QuotaMark(*map(_number, found.groups())) if found else None


def read_limit(body: bytes) -> LimitMark | None:
    found = _LIMIT.fullmatch(body)
    return LimitMark(_number(found[1]), _number(found[3]), not found[2], _number(found[4])) if found else None


def left_out(body: bytes) -> tuple[int, int]:
    """The bytes and the lines that a mark of any kind stands for."""
    found = _ANY.match(body)
    return (_number(found[1]), _number(found[2] or b"0")) if found else (0, 0)


def _number(digits: bytes) -> int:
    return int(digits.replace(b",", b""))

"""The mark that stands in an attempt's output for what its user's quota left out.

A later mark replaces one that nothing was kept behind, and counts its bytes too: so a mark can be read back.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rota.model.resources import size_text

_MARK = re.compile(
    rb"\n\[rota: ([\d,]{1,30}) bytes \(([\d,]{1,30}) lines\) of output are left out here: the quota of user "
)


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


def read_mark(body: bytes) -> QuotaMark | None:
    """None: it is another mark, such as that of the limit of an attempt."""
    found = _MARK.match(body)
    return QuotaMark(*(int(number.replace(b",", b"")) for number in found.groups())) if found else None

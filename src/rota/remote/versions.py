"""Which versions of rota understand each other: a client and a server of the same or of neighbouring minor versions.

Both say their version in the header `Rota-Version`. A caller without it is no client of rota's own, and is not checked.
"""

from __future__ import annotations

import re

from rota import __version__

HEADER = "rota-version"
OURS = __version__
_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})(?:\.[0-9A-Za-z.+-]{1,50})?")


def understand(one: str, other: str) -> bool:
    """Whether code of these versions may talk. A text that is no version never may."""
    first, second = _VERSION.fullmatch(one), _VERSION.fullmatch(other)
    if first is None or second is None:
        return False
    return first[1] == second[1] and abs(int(first[2]) - int(second[2])) <= 1

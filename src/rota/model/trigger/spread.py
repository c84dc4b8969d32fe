"""Hashed numbers that are always the same: the value of `H` in cron, and the jitter of a fire.

`H` is any one value of its field, `H(0-29)` one of that range, `H/15` and `H(0-29)/10` every so many from a random
start. The value depends on the schedule's name and on the field alone, so all nodes agree and an edit of another field
changes nothing.
"""

from __future__ import annotations

import hashlib
import re

import msgspec

from rota.errors import InvalidInput

_TERM = re.compile(r"H(?:\((\d{1,2})-(\d{1,2})\))?(?:/(\d{1,3}))?", re.ASCII)
_canonical = msgspec.json.Encoder()


def spread(*parts: str | int) -> int:
    """A 64-bit hash of these values. Stored times depend on it: never change it."""
    return int.from_bytes(hashlib.blake2b(_canonical.encode(parts), digest_size=8).digest(), "big")


def expand(what: str, text: str, low: int, high: int, *seed: str) -> str:
    """One cron field with each `H` in it replaced by numbers from `low` to `high`."""
    if "H" not in text:
        return text
    return ",".join(_expand(what, term, low, high, *seed) for term in text.split(","))


def _expand(what: str, term: str, low: int, high: int, *seed: str) -> str:
    if not term.startswith("H"):
        return term
    found = _TERM.fullmatch(term)
    if found is None:
        raise InvalidInput(what, term, f"H, H({low}-{high}), H/2 or H({low}-{high})/2")
    first, last, step = (int(number) if number else None for number in found.groups())
    bottom, top = low if first is None else first, high if last is None else last
    if not low <= bottom <= top <= high:
        raise InvalidInput(what, term, f"a range for H within {low}-{high}")
    size = top - bottom + 1
    if step is None:
        return str(bottom + spread(*seed) % size)
    if not 1 <= step <= size:
        raise InvalidInput(what, term, f"a step for H from 1 to {size}")
    return ",".join(map(str, range(bottom + spread(*seed) % step, top + 1, step)))

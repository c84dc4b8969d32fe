"""Places of a tail: what a reader that was cut off needs to go on, with any process.

A place says up to which instant all chunks were told, in the order in which the store kept them, and for each stream
with lines behind that how far it was told. As text: the instant, and a part for each such stream, named by a digest of
its attempt. `~` behind the instant: there were more streams than a place has room for, and some lines come again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

from rota.errors import InvalidInput
from rota.lines.splitter import End
from rota.model.times import HOUR, Instant

MOST_BEHIND = HOUR
MOST_STREAMS = 32
LONGEST = 2_000  # characters
_STREAM = r"\.[0-9a-f]{12}-\d{1,18}-\d{1,18}"
_PLACE = re.compile(rf"(\d{{1,17}})(~?)((?:{_STREAM}){{0,{MOST_STREAMS}}})", re.ASCII)


class TailPlace(NamedTuple):
    kept_at: Instant
    exact: bool
    told: Mapping[str, End]  # by `name_of`

    def too_old(self, now: Instant) -> bool:
        """Whether a tail begins anew."""
        return self.kept_at <= now - MOST_BEHIND

    def gap(self, now: Instant) -> str | None:
        """What a reader that comes back has to be told; None: it goes on exactly."""
        if self.too_old(now):
            return "the place is more than an hour old; lines from now on follow"
        return None if self.exact else "more streams were followed than a place tells of; some lines may come again"


def name_of(job_id: str, fence: int, stream: str) -> str:
    return blake2b(f"{job_id} {fence} {stream}".encode(), digest_size=6).hexdigest()


def read_place(text: str, what: str = "after") -> TailPlace:
    found = _PLACE.fullmatch(text)
    if found is None:
        raise InvalidInput(what, text, "the id of a line of a tail")
    told: dict[str, End] = {}
    for part in found[3].split(".")[1:]:
        name, number, offset = part.split("-")
        told[name] = End(int(number), int(offset))
    return TailPlace(int(found[1]), not found[2], told)


class PlaceKeeper:
    """Knows the place behind the line that was told last."""

    def __init__(self, kept_at: Instant, told: Mapping[str, End] | None = None) -> None:
        self._kept_at = kept_at
        self._told = {name: (end, kept_at) for name, end in (told or {}).items()}
        self._lost: Instant | None = None  # when the latest stream was told for which there was no room

    def tell(self, name: str, end: End, now: Instant) -> None:
        self._told.pop(name, None)
        self._told[name] = end, now
        if len(self._told) > MOST_STREAMS:
            _, self._lost = self._told.pop(next(iter(self._told)))

    def settle(self, kept_at: Instant) -> None:
        """All chunks that were kept until then were told."""
        self._kept_at = max(self._kept_at, kept_at)
        self._told = {name: one for name, one in self._told.items() if one[1] > self._kept_at}
        if self._lost is not None and self._lost <= self._kept_at:
            self._lost = None

    @property
    def text(self) -> str:
        parts = "".join(f".{name}-{end.number}-{end.offset}" for name, (end, _) in self._told.items())
        return f"{self._kept_at}{'' if self._lost is None else '~'}{parts}"

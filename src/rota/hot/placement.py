"""Which member of the hot tier keeps the jobs of which minute, and which one the news of which job.

Rendezvous hashing: every member has a weight for every minute and every job, and the heaviest wins. So all processes
agree without asking anyone, and a member that comes or goes moves only its own share.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

from rota.model.times import MINUTE, Instant


def keeper(at: Instant, places: Sequence[str]) -> int:
    """The index of the member that keeps jobs of this instant."""
    return _heaviest(at // MINUTE, tuple(places)) if len(places) > 1 else 0


def keeper_of(job: str, places: tuple[str, ...]) -> int:
    """The index of the member that keeps the news of this job."""
    return _heaviest(job, places) if len(places) > 1 else 0


@lru_cache(maxsize=4096)
def _heaviest(what: int | str, places: tuple[str, ...]) -> int:
    return max(range(len(places)), key=lambda index: _weight(what, places[index]))


def _weight(what: int | str, place: str) -> bytes:
    return blake2b(f"{what}/{place}".encode("utf-8", "surrogateescape"), digest_size=8).digest()

"""Times as programs print them. Seconds are remembered: many lines are of the same one."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from rota.model.times import SECOND


@lru_cache(1 << 16)
def _second(at: int, between: str) -> str:
    return datetime.fromtimestamp(at, UTC).strftime(f"%Y-%m-%d{between}%H:%M:%S")


def iso(at: int) -> str:
    return f"{_second(at // SECOND, 'T')}.{at // 1000 % 1000:03}Z"


def comma(at: int) -> str:
    """As Python's logging has it."""
    return f"{_second(at // SECOND, ' ')},{at // 1000 % 1000:03}"

"""The rules that the chaos runs use, as plain arithmetic: when they fire is worked out without asking rota.

Instants are whole microseconds since 1970, UTC.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

SECOND = 1_000_000
# Of a past that all of them have in common: 2026-01-01T00:00:00Z, an even second.
EPOCH = 1_767_225_600 * SECOND


@dataclass(frozen=True)
class Rule:
    """All instants that lie `phase` after a whole number of periods, from `start` to `end`."""

    period: int
    phase: int
    start: int
    end: int

    def fires(self) -> Iterator[int]:
        first = self.start + (self.phase - self.start) % self.period
        return iter(range(first, self.end + 1, self.period))

    def has(self, instant: int) -> bool:
        return self.start <= instant <= self.end and (instant - self.phase) % self.period == 0


@dataclass(frozen=True)
class Saying:
    """How a rule is told to rota, and what is meant by it."""

    words: dict[str, str]
    period: int
    phase: int


# Zones whose clocks are whole minutes ahead or behind: their seconds are those of all others.
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe")


def saying(number: int) -> Saying:
    """A third of the rules fires at every full second, a fifth at each second one; the others are spread out."""
    zone = ZONES[number % len(ZONES)]
    match number % 6:
        case 0 | 1:
            return Saying({"cron": "* * * * * *", "tz": zone}, SECOND, 0)
        case 2:
            return Saying({"cron": "*/2 * * * * *", "tz": zone}, 2 * SECOND, 0)
        case 3:
            return Saying({"cron": "1-59/2 * * * * *", "tz": zone}, 2 * SECOND, SECOND)
        case 4:
            return every(1, number * 7_919 % 1_000)
        case _:
            return every(2, number * 7_919 % 2_000)


def every(seconds: int, milliseconds: int) -> Saying:
    """Each so many seconds, so long after a full one (or after an even one)."""
    whole, part = divmod(milliseconds, 1_000)
    words = {"every": f"{seconds}s from 2026-01-01T00:00:{whole:02}.{part:03}000+00:00"}
    return Saying(words, seconds * SECOND, EPOCH + milliseconds * 1_000)

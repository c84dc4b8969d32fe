"""Policies of a schedule for clock changes, downtime and its own earlier fires."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from rota.errors import InvalidInput
from rota.model.times import LONGEST, MINUTE, Duration

MOST_CAUGHT_UP = 10_000


class Gap(StrEnum):
    """For local times that don't exist, because clocks went forward."""

    SKIP = "skip"
    SHIFT = "shift"  # to the first instant after the gap


class Fold(StrEnum):
    """For local times that happen twice, because clocks went back."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


class Overlap(StrEnum):
    """For a fire whose predecessor still lives."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"  # run after it
    REPLACE = "replace"  # cancel it


class Missed(StrEnum):
    """Which missed fires are made up for."""

    NONE = "none"
    LATEST = "latest"
    ALL = "all"


class CatchUp(msgspec.Struct, frozen=True, omit_defaults=True):
    """The newest due fire does not count as missed while it is late by no more than `grace`: a node that takes over a
    second later must not skip it.

    `window`: older fires are never made up for. `most`: at most this many, the newest, are made up for.
    """

    missed: Missed = Missed.LATEST
    window: Duration | None = None
    most: int = 100
    grace: Duration = MINUTE

    def __post_init__(self) -> None:
        if self.window is not None and not 0 < self.window <= LONGEST:
            raise InvalidInput("catch-up window", self.window, "a duration above 0 and up to 100 years")
        if not 1 <= self.most <= MOST_CAUGHT_UP:
            raise InvalidInput("catch-up maximum", self.most, f"a whole number from 1 to {MOST_CAUGHT_UP:,}")
        if not 0 <= self.grace <= LONGEST:
            raise InvalidInput("catch-up grace", self.grace, "a duration, not negative, at most 100 years")

"""Fires that are not made, and why. Told as runs of neighbours with one reason: a schedule that fires each second and
was down for a month has one line, not two million."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from rota.model.times import Instant


class SkipReason(StrEnum):
    """Why a fire was not made."""

    MISSED = "missed"  # and nothing is made up for
    NEWER = "newer"  # a newer one is made instead
    WINDOW = "window"  # too old to be made up for
    MAXIMUM = "maximum"  # enough newer ones are made up for
    PAUSED = "paused"
    OVERLAP = "overlap"  # the one before it still lived
    REMOVED = "removed"  # the schedule was taken away before it was made


class Skipped(msgspec.Struct, frozen=True):
    """A run of fires that were not made, from `first` to `last`, `count` of them (None: too many to be counted)."""

    first: Instant
    last: Instant
    count: int | None
    reason: SkipReason

"""Skipped fires and their reasons. Consecutive fires with one reason are one run: a schedule that fires each second and
was down for a month has one record, not two million."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from rota.model.times import Instant


class SkipReason(StrEnum):
    """Why a fire was not made."""

    MISSED = "missed"  # and there is no catch-up
    NEWER = "newer"  # a newer one is made instead
    WINDOW = "window"  # too old to be made up for
    MAXIMUM = "maximum"  # enough newer ones are made up for
    PAUSED = "paused"
    OVERLAP = "overlap"  # the fire before it still lived
    REMOVED = "removed"  # the schedule was removed before


class Skipped(msgspec.Struct, frozen=True):
    """A run of fires that were not made, from `first` to `last`, `count` of them (None: too many to be counted)."""

    first: Instant
    last: Instant
    count: int | None
    reason: SkipReason

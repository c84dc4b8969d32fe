"""Schedules as stores keep them: how they stand, what is done to them, and what became of their fires."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from rota.model.job import NewJob
from rota.model.lifecycle import State
from rota.model.times import Instant
from rota.model.trigger.policies import Overlap
from rota.model.trigger.skipped import Skipped, SkipReason


class FireKind(StrEnum):
    RULE = "rule"  # its time had come
    MANUAL = "manual"  # a person wanted it now
    BACKFILL = "backfill"  # a person wanted it made up for


class Fate(StrEnum):
    """What became of a fire that was to be made."""

    MADE = "made"
    QUEUED = "queued"  # made, and runs when those before it have ended
    SKIPPED = "skipped"  # one before it still lives
    ALREADY = "already"  # it was made before: nothing was changed


class NewSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule on its way in. Its texts are those of `schedule.to_json` and `template.to_json`."""

    name: str
    timing: str
    work: str
    overlap: Overlap
    calendars: tuple[str, ...] = ()  # all that it names
    app: str | None = None  # the app that declares it in its code
    module: str | None = None  # and the module of that app in which it stands; None: not known
    since: Instant  # fires up to here are none of its business
    next_at: Instant | None
    note: str | None = None  # not None: a new one begins as paused, with this note


class ScheduleInfo(msgspec.Struct, frozen=True, kw_only=True):
    """How a schedule stands. Its texts stay undecoded: a broken one must not hide the others."""

    owner: str
    name: str
    revision: int  # rises with every change by a person, and is never used again
    timing: str
    work: str
    app: str | None
    created_at: Instant
    changed_at: Instant
    handled: Instant  # all fires up to here were made or skipped; never moves back
    next_at: Instant | None  # when to look at it next; None: never, unless it is changed
    fired: int
    last_fire: Instant | None = None
    last_job: str | None = None
    paused_at: Instant | None = None
    paused_by: str | None = None
    note: str | None = None
    broken: str | None = None  # why it was set aside
    module: str | None = None  # in which `app` declares it; None: not known
    undeclared_at: Instant | None = None  # the node of `app` that started last did not declare it, and left it

    @property
    def paused(self) -> bool:
        return self.paused_at is not None


class ScheduleFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which schedules; all given conditions must hold. In the order of owner and name."""

    names: tuple[str, ...] | None = None
    app: str | None = None
    after: tuple[str, str] | None = None  # owner and name of the last one of the page before
    limit: int = 100


class NewFire(msgspec.Struct, frozen=True):
    fire: Instant
    job: NewJob


class Advance(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a schedule: fires to make, fires that are skipped, and how it stands afterwards. It counts only if
    the schedule still stands as it did when this was worked out: same revision, same `before`."""

    owner: str
    name: str
    revision: int
    before: Instant  # what was `handled`
    fires: Sequence[NewFire]
    skips: Sequence[Skipped]
    handled: Instant
    next_at: Instant | None
    limit: int | None
    overlap: Overlap

    @property
    def reach(self) -> Instant:
        """The latest fire that it decides about: before that time it can't be carried out."""
        return max([0, *(one.fire for one in self.fires[-1:]), *(one.last for one in self.skips[-1:])])


class FireInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A fire that was made, or a run of fires that were skipped."""

    fire: Instant  # of a run: the first
    last: Instant
    count: int | None  # None: too many to be counted
    at: Instant  # when that was decided
    kind: FireKind | None = None  # None: it was skipped
    reason: SkipReason | None = None  # why it was skipped
    job_id: str | None = None
    state: State | None = None  # of its job; None: that is gone


class ScheduledFire(msgspec.Struct, frozen=True):
    """Which fire a job is."""

    schedule: str
    fire: Instant
    kind: FireKind

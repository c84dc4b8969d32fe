"""Schedules as stores keep them: their state, their changes, and the records of their fires."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec
from msgspec import structs

from rota.model.job import NewJob
from rota.model.lifecycle import State
from rota.model.times import Instant, aware_or_none
from rota.model.trigger.policies import Overlap
from rota.model.trigger.skipped import Skipped, SkipReason
from rota.model.trigger.template import shown_text

Moment = TypeVar("Moment", Instant, datetime)


class FireKind(StrEnum):
    RULE = "rule"  # its time had come
    MANUAL = "manual"  # a person fired it
    BACKFILL = "backfill"  # a person made up for it


class Fate(StrEnum):
    """The answer to an attempt to make a fire."""

    MADE = "made"
    QUEUED = "queued"  # made; it runs when the fires before it have ended
    SKIPPED = "skipped"  # a fire before it still lives
    ALREADY = "already"  # it was made before: nothing was changed


class NewSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule to save. Its texts are those of `schedule.to_json` and `template.to_json`."""

    name: str
    timing: str
    work: str
    overlap: Overlap
    calendars: tuple[str, ...] = ()  # all calendars that it names
    app: str | None = None  # the app that declares it in its code
    module: str | None = None  # and the module that declares it; None: not known
    since: Instant  # fires up to here are ignored
    next_at: Instant | None
    note: str | None = None  # not None: a new one begins as paused, with this note


class _Schedule(msgspec.Struct, Generic[Moment], frozen=True, kw_only=True):
    """Texts stay undecoded: a broken one must not hide the others."""

    owner: str
    name: str
    revision: int  # rises with every change by a person, and is never reused
    timing: str
    work: str
    app: str | None
    created_at: Moment
    changed_at: Moment
    handled: Moment  # all fires up to here were made or skipped; never moves back
    next_at: Moment | None  # when to look at it next; None: never, unless it is changed
    fired: int
    last_fire: Moment | None = None
    last_job: str | None = None
    paused_at: Moment | None = None
    paused_by: str | None = None
    note: str | None = None
    broken: str | None = None  # why it was set aside
    module: str | None = None  # the module that declares it; None: not known
    undeclared_at: Moment | None = None  # the last node of `app` that started did not declare it

    @property
    def paused(self) -> bool:
        return self.paused_at is not None


class ScheduleInfo(_Schedule[datetime], frozen=True, kw_only=True):
    """A schedule as people read it."""


class StoredSchedule(_Schedule[Instant], frozen=True, kw_only=True):
    """A schedule as stores keep it. Steps are computed from its instants: a step is carried out only if its cursor is
    exactly the stored one, and a datetime can't hold whatever a row may hold."""

    def shown(self) -> ScheduleInfo:
        times = {name: aware_or_none(getattr(self, name)) for name in _TIMES}
        return ScheduleInfo(**structs.asdict(self) | times | {"work": shown_text(self.work)})


_TIMES = ("created_at", "changed_at", "handled", "next_at", "last_fire", "paused_at", "undeclared_at")


class ScheduleFilter(msgspec.Struct, frozen=True, kw_only=True):
    """All given conditions must hold. Ordered by owner and name."""

    names: tuple[str, ...] | None = None
    app: str | None = None
    after: tuple[str, str] | None = None  # owner and name of the last row of the page before
    limit: int = 100


class NewFire(msgspec.Struct, frozen=True):
    fire: Instant
    job: NewJob


class Advance(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a schedule: fires to make, fires to skip, and the new cursor. It applies only if the schedule still
    has the same revision and the cursor `before`."""

    owner: str
    name: str
    revision: int
    before: Instant  # the expected `handled`
    fires: Sequence[NewFire]
    skips: Sequence[Skipped]
    handled: Instant
    next_at: Instant | None
    limit: int | None
    overlap: Overlap

    @property
    def reach(self) -> Instant:
        """The latest fire that it decides: the step can't be applied before that time."""
        return max([0, *(one.fire for one in self.fires[-1:]), *(one.last for one in self.skips[-1:])])


class FireInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A fire that was made, or a run of fires that were skipped."""

    fire: datetime  # of a run: the first
    last: datetime
    count: int | None  # None: too many to be counted
    at: datetime  # the time of the decision
    kind: FireKind | None = None  # None: it was skipped
    reason: SkipReason | None = None  # why it was skipped
    job_id: str | None = None
    state: State | None = None  # of its job; None: the job is gone


class ScheduledFire(msgspec.Struct, frozen=True):
    """The fire of a job."""

    schedule: str
    fire: Instant
    kind: FireKind

"""The part of the contract of a store that is about schedules; see `store.base` for what all verbs share.

A schedule has two kinds of writers. People change it: every change raises its `revision`. Schedulers (any number of
them, on any node) move it on: they work out an `Advance` from what they have read, and the store carries it out only
if revision and cursor are still the same. So a fire is made once whoever does it, an edit or a pause is either before
a fire or after it, and nobody needs a lock while thinking.

Three things keep a fire from happening twice, each enough by itself: the cursor, which never moves back; the row per
(owner, schedule, fire time); and the id of its job, which is made of the same three.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from rota.model.principal import Principal
from rota.model.times import Instant
from rota.model.trigger.calendars import Calendar
from rota.model.trigger.records import (
    Advance,
    Fate,
    FireInfo,
    FireKind,
    NewFire,
    NewSchedule,
    ScheduleFilter,
    ScheduleInfo,
)
from rota.model.trigger.skipped import Skipped


class Timetable(ABC):
    # -- what people do ----------------------------------------------------------------------------------------------
    @abstractmethod
    async def put_schedule(self, who: Principal, new: NewSchedule, revision: int | None) -> bool:
        """Keeps a schedule: a new one (`revision` None), or one in the place of what stands there under that revision,
        which clears what was broken and leaves a pause as it is. False, and nothing is changed, if the name is taken,
        or if something else stands there by now, or has been due since before `new.since` and not been handled. A name
        that the principal's calendars don't have raises InvalidInput."""

    @abstractmethod
    async def pause_schedule(self, who: Principal, name: str, note: str) -> bool:
        """From here on its fires are skipped, also those that were due and not made yet. Again: another note."""

    @abstractmethod
    async def resume_schedule(self, who: Principal, name: str, revision: int, since: Instant) -> bool:
        """Ends the pause; or gives one that was set aside another chance, and leaves a pause as it is. False, and
        nothing is changed, if something else stands there by now, or has been due since before `since` and not been
        handled."""

    @abstractmethod
    async def remove_schedule(
        self,
        who: Principal,
        name: str,
        revision: int,
        before: Instant,
        skips: Sequence[Skipped],
        app: str | None = None,
    ) -> bool:
        """Takes it away; its jobs and the history of its fires stay. False, and nothing is changed, if revision and
        cursor are not those. `app`: not a person but the code of this app wants it; recorded in the outbox."""

    @abstractmethod
    async def undeclare_schedules(self, who: Principal, app: str, read: Sequence[tuple[str, int]]) -> list[str]:
        """A node of the app does not declare these (name, revision), and can't tell that they are gone: they go on, and
        `undeclared_at` says since when. The next `put_schedule` clears that. Returns the names for which it is new; one
        that does not belong to the app, or is not as it was read, stays as it is."""

    @abstractmethod
    async def make_fires(
        self, who: Principal, name: str, kind: FireKind, fires: Sequence[NewFire]
    ) -> list[Fate] | None:
        """Makes fires that a person wants, in the order given, whatever the cursor says; the schedule's overlap policy
        counts. A fire that was made before stays as it was. None: there is no such schedule."""

    # -- what schedulers do ------------------------------------------------------------------------------------------
    @abstractmethod
    async def coming_schedules(
        self, who: Principal, until: Instant, limit: int
    ) -> tuple[list[ScheduleInfo], Instant | None]:
        """Those to be looked at until then, earliest first; and the instant of the first that is left out."""

    @abstractmethod
    async def advance(self, who: Principal, steps: Sequence[Advance]) -> list[list[Fate] | None]:
        """Carries out steps of schedules, each on its own, in one commit: makes the jobs, records what was skipped and
        moves the cursor. None where the schedule no longer stands as the step takes for granted, where its time has
        not come by the store's clock, or where someone else is at it."""

    @abstractmethod
    async def set_aside_schedule(self, who: Principal, owner: str, name: str, revision: int, why: str) -> bool:
        """Never looks at it again until it is changed or resumed; recorded in the outbox. Its owner may say so too."""

    @abstractmethod
    async def release(self, who: Principal, limit: int) -> tuple[int, int]:
        """Lets fires run that waited for earlier ones of their schedule, one of each schedule; returns how many it let
        go, and how many schedules have fires that go on waiting."""

    # -- calendars ---------------------------------------------------------------------------------------------------
    @abstractmethod
    async def put_calendar(self, who: Principal, calendar: Calendar) -> None:
        """Keeps a calendar, in the place of one of the same name. All schedules that name it are looked at anew."""

    @abstractmethod
    async def remove_calendar(self, who: Principal, name: str) -> list[str] | None:
        """None: there is none. Else the names of the schedules (some of them) that need it: if there are any, it
        stays."""

    @abstractmethod
    async def calendars(self, who: Principal, owner: str, names: Sequence[str] | None = None) -> list[Calendar]:
        """Those of one owner, in the order of their names. One that can't be read is left out."""

    # -- reads -------------------------------------------------------------------------------------------------------
    @abstractmethod
    async def schedules(self, who: Principal, query: ScheduleFilter) -> list[ScheduleInfo]: ...

    @abstractmethod
    async def fires(self, who: Principal, owner: str, name: str, before: Instant, limit: int) -> list[FireInfo]:
        """What became of its fires from before an instant, latest first."""

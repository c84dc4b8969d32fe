"""The contract of a store, part schedules; see `store.base` for what all verbs share.

A schedule has two kinds of writers. People change it: every change raises its `revision`. Schedulers (any number of
them, on any node) move it on: they work out an `Advance` from the rows they have read, and the store carries it out
only if revision and cursor are still the same. So several schedulers make a fire once, an edit or a pause comes either
before a fire or after it, and no scheduler needs a lock while it computes.

Three things keep a fire from happening twice, each enough by itself: the cursor, which never moves back; the row per
(owner, schedule, fire time); and the id of its job, which is made of the same three.
"""

from __future__ import annotations

from abc import abstractmethod
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
    StoredSchedule,
)
from rota.model.trigger.skipped import Skipped
from rota.store.deeds import Deed, about, always
from rota.store.verbs import NODE, READ, WRITE, Verbs, verb


def _made_some(fates: Sequence[Fate] | None) -> bool:
    return any(fate is not Fate.ALREADY for fate in fates or ())


class Timetable(Verbs):
    # -- what people do ----------------------------------------------------------------------------------------------
    @verb(WRITE, audit=about("new.name", "revision"))
    @abstractmethod
    async def put_schedule(self, who: Principal, /, new: NewSchedule, revision: int | None) -> bool:
        """Adds a schedule (`revision` None), or replaces the schedule if its revision still matches; that clears the
        mark of a broken one and keeps a pause. False, and nothing is changed, if the name is taken, if the revision
        differs, or if a fire has been due since before `new.since` and was not handled. A calendar that the principal
        does not have raises InvalidInput."""

    @verb(WRITE, audit=about("name", "note"))
    @abstractmethod
    async def pause_schedule(self, who: Principal, /, name: str, note: str) -> bool:
        """Skips the schedule's fires from now on, and fires that were due and not made yet. A paused schedule gets the
        new note."""

    @verb(WRITE, audit=about("name"))
    @abstractmethod
    async def resume_schedule(self, who: Principal, /, name: str, revision: int, since: Instant) -> bool:
        """Ends the pause; or puts a schedule that was set aside back to work, and keeps its pause. False, and nothing
        is changed, if the revision differs, or if a fire has been due since before `since` and was not handled."""

    @verb(WRITE, audit=about("name", "app"))
    @abstractmethod
    async def remove_schedule(
        self,
        who: Principal,
        /,
        name: str,
        revision: int,
        before: Instant,
        skips: Sequence[Skipped],
        app: str | None = None,
    ) -> bool:
        """Removes the schedule; its jobs and the history of its fires stay. False, and nothing is changed, if revision
        or cursor (`before`) differ. `app`: the code of this app asked for it, not a person; recorded in the outbox."""

    @verb(WRITE, batch="read", audit=Deed(lambda _, names: list(names), ("app",)))
    @abstractmethod
    async def undeclare_schedules(self, who: Principal, /, app: str, read: Sequence[tuple[str, int]]) -> list[str]:
        """Marks schedules (name, revision) that a node of the app does not declare, though they may not be gone: they
        go on, and `undeclared_at` says since when. The next `put_schedule` clears the mark. Returns the names that were
        not marked before; a schedule of another app, or of another revision, stays as it is."""

    @verb(WRITE, audit=about("name", "kind", done=_made_some))
    @abstractmethod
    async def make_fires(
        self, who: Principal, /, name: str, kind: FireKind, fires: Sequence[NewFire]
    ) -> list[Fate] | None:
        """Makes fires that a person asks for, in the order given and regardless of the cursor; the schedule's overlap
        policy counts. A fire that was made before stays as it was. None: there is no such schedule."""

    # -- what schedulers do ------------------------------------------------------------------------------------------
    @verb(READ, NODE, "look after")
    @abstractmethod
    async def coming_schedules(
        self, who: Principal, /, until: Instant, limit: int
    ) -> tuple[list[StoredSchedule], Instant | None]:
        """The schedules due up to `until`, earliest first, and the due time of the first one after these."""

    @verb(WRITE, batch="steps", audit=None)
    @abstractmethod
    async def advance(self, who: Principal, /, steps: Sequence[Advance]) -> list[list[Fate] | None]:
        """Carries out steps of schedules, each on its own, in one commit: makes the jobs, records the skipped fires and
        moves the cursor. None where revision or cursor differ from the step's, where its time has not come by the
        store's clock, or where another scheduler holds the schedule."""

    @verb(WRITE, owner="owner", nothing=bool, audit=about("name", "why"))
    @abstractmethod
    async def set_aside_schedule(self, who: Principal, /, owner: str, name: str, revision: int, why: str) -> bool:
        """Ignores a broken schedule until it is changed or resumed; recorded in the outbox. For nodes and its owner."""

    @verb(WRITE, NODE)
    @abstractmethod
    async def release(self, who: Principal, /, limit: int) -> tuple[int, int]:
        """Releases fires that waited for earlier ones of their schedule, one of each schedule; returns how many it
        released, and how many schedules have fires that go on waiting."""

    # -- calendars ---------------------------------------------------------------------------------------------------
    @verb(WRITE, audit=about("calendar.name", done=always))
    @abstractmethod
    async def put_calendar(self, who: Principal, /, calendar: Calendar, version: str | None = None) -> None:
        """Adds a calendar or replaces the one of that name. All schedules that name it are looked at anew. `version`:
        of what it may replace (`model.versions`); if another is there, raises ChangedMeanwhile."""

    @verb(WRITE, audit=about("name", done=lambda needing: needing == []))
    @abstractmethod
    async def remove_calendar(self, who: Principal, /, name: str, version: str | None = None) -> list[str] | None:
        """Removes a calendar unless schedules need it, and returns the names of some of these schedules. None: no such
        calendar. `version` as for `put_calendar`."""

    @verb(READ, owner="owner")
    @abstractmethod
    async def calendars(self, who: Principal, /, owner: str, names: Sequence[str] | None = None) -> list[Calendar]:
        """The calendars of one owner, in the order of their names. One that can't be read is left out."""

    # -- reads -------------------------------------------------------------------------------------------------------
    @verb(READ)
    @abstractmethod
    async def schedules(self, who: Principal, /, query: ScheduleFilter) -> list[StoredSchedule]:
        """The schedules that fit, by owner and name."""

    @verb(READ, owner="owner")
    @abstractmethod
    async def fires(self, who: Principal, /, owner: str, name: str, before: Instant, limit: int) -> list[FireInfo]:
        """Made and skipped fires of a schedule from before an instant, latest first."""

"""Fires of schedules: made, skipped, queued behind earlier ones, and released."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Generic, NamedTuple, TypeVar

from rota.model.job import NewJob
from rota.model.lifecycle import State
from rota.model.principal import Principal
from rota.model.trigger.policies import Overlap
from rota.model.trigger.records import Advance, Fate, FireKind, NewFire
from rota.model.trigger.skipped import Skipped
from rota.store.carriers import fire_events
from rota.store.carriers.orders import cancel
from rota.store.carriers.quotas import take_made
from rota.store.carriers.unit import Columns, Unit
from rota.store.firing import REPLACED, decide
from rota.store.values import Topic

U = TypeVar("U", bound=Unit)
Schedule = tuple[str, str]  # owner and name
Alive = Mapping[Schedule, list[tuple[str, str]]]  # jobs of a schedule that have not ended, with their kinds

# Waiting fires that are read per schedule to learn whether any wait.
A_FEW = 20


class Wish(NamedTuple):
    """Fires of one schedule that are to be made."""

    owner: str
    name: str
    overlap: Overlap
    fires: Sequence[NewFire]

    @property
    def schedule(self) -> Schedule:
        return self.owner, self.name


class Fires(ABC, Generic[U]):
    """A store adds how it inserts jobs."""

    @abstractmethod
    async def insert_jobs(self, unit: U, owner: str, jobs: Sequence[NewJob], blocked: Collection[str]) -> None:
        """`blocked`: ids of the jobs that wait for earlier fires of their schedule."""

    # -- verbs -------------------------------------------------------------------------------------------------------
    async def make_fires(
        self, unit: U, who: Principal, name: str, kind: FireKind, fires: Sequence[NewFire]
    ) -> list[Fate] | None:
        await unit.begin()
        overlap = await unit.value("hold_schedule", owner=who.user, name=name)
        if overlap is None:
            return None
        (fates,) = await self._make(unit, kind, [Wish(who.user, name, Overlap(overlap), fires)])
        made = _made(fires, fates)
        await take_made(unit, who, len(made))
        if kind is FireKind.MANUAL:
            for fire in made:
                schedule = {"owner": who.user, "name": name}
                await unit.run("note_last_fire", **schedule, last_fire=fire.fire, last_job=fire.job.id)
        return fates

    async def advance(self, unit: U, who: Principal, steps: Sequence[Advance]) -> list[list[Fate] | None]:
        """Each schedule once: of several steps of one, at most the first that fits is carried out."""
        await unit.begin()
        columns: Columns = {
            "owners": [one.owner for one in steps], "names": [one.name for one in steps],
            "revisions": [one.revision for one in steps], "cursors": [one.before for one in steps],
            "reaches": [one.reach for one in steps],
        }  # fmt: skip
        chosen: dict[Schedule, int] = {}
        for place in sorted(place for (place,) in await unit.rows("standing_schedules", columns, now=unit.now)):
            one = steps[place]
            if who.sees in (None, one.owner):
                chosen.setdefault((one.owner, one.name), place)
        fitting = [steps[place] for place in chosen.values()]
        answers: list[list[Fate] | None] = [None] * len(steps)
        for place, fates in zip(chosen.values(), await self._carry_out(unit, fitting), strict=True):
            answers[place] = fates
        return answers

    async def _carry_out(self, unit: U, steps: Sequence[Advance]) -> list[list[Fate]]:
        if not steps:
            return []
        wishes = [Wish(one.owner, one.name, one.overlap, one.fires) for one in steps]
        fates = await self._make(unit, FireKind.RULE, wishes)
        await record_skips(unit, [(one.owner, one.name, skip) for one in steps for skip in one.skips])
        made = [_made(one.fires, some) for one, some in zip(steps, fates, strict=True)]
        columns: Columns = {
            "owners": [one.owner for one in steps], "names": [one.name for one in steps],
            "handled": [one.handled for one in steps], "made": [len(some) for some in made],
            "limits": [one.limit for one in steps], "nexts": [one.next_at for one in steps],
            "last_fires": [some[-1].fire if some else None for some in made],
            "last_jobs": [some[-1].job.id if some else None for some in made],
        }  # fmt: skip
        await unit.run("move_schedules", columns)
        return fates

    # -- making fires ------------------------------------------------------------------------------------------------
    async def _make(self, unit: U, kind: FireKind, wishes: Sequence[Wish]) -> list[list[Fate]]:
        """The rows of fires come first: the unit that inserts one makes its job, and no other does."""
        fresh = await _insert_fires(unit, kind, wishes)
        alive = await _alive(unit, [one for one in wishes if one.overlap is not Overlap.ALLOW], fresh)
        fates: list[list[Fate]] = []
        waiting: list[str] = []
        withdrawn: list[str] = []
        skips: list[tuple[str, str, Skipped]] = []
        for wish in wishes:
            new = [fire for fire in wish.fires if fire.job.id in fresh]
            decision = decide(wish.overlap, kind, new, alive.get(wish.schedule, []))
            by_id = dict(zip([fire.job.id for fire in new], decision.fates, strict=True))
            fates.append([by_id.get(fire.job.id, Fate.ALREADY) for fire in wish.fires])
            waiting += [fire.job.id for fire in decision.waiting(new)]
            withdrawn += [job for job, fate in by_id.items() if fate is Fate.SKIPPED]
            skips += [(wish.owner, wish.name, skip) for skip in decision.skipped(new)]
            if decision.cancel:
                await cancel(unit, Principal(wish.owner), decision.cancel, REPLACED)
        if withdrawn:
            await unit.run("withdraw_fires", ids=withdrawn)
            await record_skips(unit, skips)
        chosen = fresh - set(withdrawn)
        await self._insert_jobs(unit, wishes, chosen, waiting)
        made = [(one, fire) for one in wishes for fire in one.fires if fire.job.id in chosen]
        told = [(one.owner, one.name, fire_events.about_fire(kind, fire)) for one, fire in made]
        await fire_events.append(unit, fire_events.FIRED, told)
        return fates

    async def _insert_jobs(self, unit: U, wishes: Sequence[Wish], chosen: set[str], waiting: list[str]) -> None:
        jobs = [(one.owner, fire.job) for one in wishes for fire in one.fires if fire.job.id in chosen]
        for owner, group in groupby(sorted(jobs, key=lambda one: one[0]), key=lambda one: one[0]):
            await self.insert_jobs(unit, owner, [job for _, job in group], frozenset(waiting))
        if waiting:
            await unit.run("wait_for_others", ids=waiting)
            unit.topics.add(Topic.SCHEDULE)


def _made(fires: Sequence[NewFire], fates: Sequence[Fate]) -> list[NewFire]:
    return [fire for fire, fate in zip(fires, fates, strict=True) if fate in (Fate.MADE, Fate.QUEUED)]


async def _insert_fires(unit: Unit, kind: FireKind, wishes: Sequence[Wish]) -> set[str]:
    fires = [(one, fire) for one in wishes for fire in one.fires]
    if kind is FireKind.BACKFILL:  # the job of a fire may outlive the record of it
        there = {job for (job,) in await unit.rows("known_jobs", ids=[fire.job.id for _, fire in fires])}
        fires = [(one, fire) for one, fire in fires if fire.job.id not in there]
    if not fires:
        return set()
    columns: Columns = {
        "owners": [one.owner for one, _ in fires], "names": [one.name for one, _ in fires],
        "fires": [fire.fire for _, fire in fires], "ids": [fire.job.id for _, fire in fires],
        "open": [one.overlap is not Overlap.ALLOW for one, _ in fires],
    }  # fmt: skip
    return {job for (job,) in await unit.rows("insert_fires", columns, kind=kind.value, now=unit.now)}


async def _alive(unit: Unit, wishes: Sequence[Wish], fresh: set[str]) -> Alive:
    """Jobs of earlier fires that have not ended. Of waiting fires at least one is returned, or all if they are to be
    replaced. Fires whose jobs have ended are closed."""
    alive: dict[Schedule, list[tuple[str, str]]] = {}
    while wishes:
        columns: Columns = {
            "owners": [one.owner for one in wishes], "names": [one.name for one in wishes],
            "all": [one.overlap is Overlap.REPLACE for one in wishes],
        }  # fmt: skip
        found: dict[Schedule, int] = {}
        over: list[str] = []
        for owner, name, job, kind, lives in await unit.rows("open_fires", columns, few=A_FEW):
            found[owner, name] = found.get((owner, name), 0) + 1
            if not lives and job not in fresh:
                over.append(job)
            elif job not in fresh:
                alive.setdefault((owner, name), []).append((job, kind))
        if over:
            await unit.run("close_fires", ids=over)
        # All fires of this page have ended; live ones may follow.
        wishes = [one for one in wishes if one.schedule not in alive and over and found.get(one.schedule, 0) >= A_FEW]
    return alive


async def record_skips(unit: Unit, skips: Iterable[tuple[str, str, Skipped]]) -> None:
    rows = list(skips)
    if rows:
        columns: Columns = {
            "owners": [owner for owner, _, _ in rows], "names": [name for _, name, _ in rows],
            "firsts": [one.first for _, _, one in rows], "lasts": [one.last for _, _, one in rows],
            "counts": [one.count for _, _, one in rows], "reasons": [one.reason.value for _, _, one in rows],
        }  # fmt: skip
        fresh = {(owner, name, first) for owner, name, first in await unit.rows("insert_skips", columns, now=unit.now)}
        told = [
            (owner, name, fire_events.about_skip(one)) for owner, name, one in rows if (owner, name, one.first) in fresh
        ]
        await fire_events.append(unit, fire_events.SKIPPED, told)


# -- releasing -------------------------------------------------------------------------------------------------------
async def nothing_waits(unit: Unit, limit: int) -> tuple[int, int] | None:
    """The answer of `release` if no fire waits."""
    return None if await unit.value("count_waiting") else (0, 0)


async def release(unit: Unit, limit: int) -> tuple[int, int]:
    if (nothing := await nothing_waits(unit, limit)) is not None:
        return nothing
    await unit.begin()
    await unit.run("close_ended")
    chosen = [job for (job,) in await unit.rows("free_fires", limit=limit)]
    states = await unit.rows("release_jobs", ids=chosen, now=unit.now, step=unit.ageing_step) if chosen else []
    unit.topics |= {Topic.READY if state == State.READY else Topic.DUE for (state,) in states}
    return len(states), await unit.value("count_waiting")

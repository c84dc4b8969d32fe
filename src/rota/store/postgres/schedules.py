"""Fires of schedules on PostgreSQL: nearly all of them in one statement."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rota.model.job import NewJob
from rota.model.principal import Principal
from rota.model.trigger.policies import Overlap
from rota.model.trigger.records import Advance, Fate, FireKind
from rota.store.carriers.fire_events import about_fire
from rota.store.carriers.fires import Fires
from rota.store.columns import given_lists
from rota.store.postgres import orders
from rota.store.postgres.database import Unit
from rota.store.values import Topic


class PostgresFires(Fires[Unit]):
    async def insert_jobs(self, unit: Unit, owner: str, jobs: Sequence[NewJob], blocked: Collection[str]) -> None:
        await orders.insert(unit, owner, jobs, blocked)

    async def advance(self, unit: Unit, who: Principal, steps: Sequence[Advance]) -> list[list[Fate] | None]:
        """Carries out steps of one fire in one statement, and other steps as every store does."""
        named: set[tuple[str, str]] = set()
        plain: list[int] = []
        others: list[int] = []
        for place, one in enumerate(steps):
            if who.sees in (None, one.owner):
                simple = len(one.fires) == 1 and not one.skips and one.overlap is Overlap.ALLOW
                (plain if simple and (one.owner, one.name) not in named else others).append(place)
                named.add((one.owner, one.name))
        answers: list[list[Fate] | None] = [None] * len(steps)
        if others:
            await unit.begin()
        if plain:
            _put_in(answers, plain, await _fire_plainly(unit, [steps[place] for place in plain]))
        if others:
            _put_in(answers, others, await super().advance(unit, who, [steps[place] for place in others]))
        if None in answers:  # a step may have come too soon, if the server's clock was set back
            await unit.look_at_the_clock(again=True)
        return answers


def _put_in(answers: list[list[Fate] | None], places: Sequence[int], some: Sequence[list[Fate] | None]) -> None:
    for place, fates in zip(places, some, strict=True):
        answers[place] = fates


async def _fire_plainly(unit: Unit, steps: Sequence[Advance]) -> list[list[Fate] | None]:
    jobs = [one.fires[0].job for one in steps]
    rows = await unit.rows(
        "fire_plainly", now=unit.now, step=unit.ageing_step, owners=[one.owner for one in steps],
        names=[one.name for one in steps], revisions=[one.revision for one in steps],
        cursors=[one.before for one in steps], fires=[one.fires[0].fire for one in steps],
        limits=[one.limit for one in steps], nexts=[one.next_at for one in steps], times=[job.at for job in jobs],
        expiries=[job.expires for job in jobs], told=[about_fire(FireKind.RULE, one.fires[0]) for one in steps],
        **given_lists(jobs),
    )  # fmt: skip
    answers: list[list[Fate] | None] = [None] * len(steps)
    for place, made, later in rows:
        answers[place] = [Fate.MADE if made else Fate.ALREADY]
        unit.topics |= {Topic.READY, Topic.DUE} if later else {Topic.READY}
    return answers

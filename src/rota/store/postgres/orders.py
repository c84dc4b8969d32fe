"""Verbs for orders: submit, replay, purge."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rota.model.job import NewJob, Submitted
from rota.model.lifecycle import JobEvent, State, sources
from rota.model.principal import Principal
from rota.model.rank import rank
from rota.model.times import LATEST, Duration, Instant
from rota.store import columns
from rota.store.carriers import quotas, sealing
from rota.store.postgres import graph
from rota.store.postgres.database import Unit
from rota.store.postgres.encoding import ids_only
from rota.store.postgres.wire import read_answer, stray, wire
from rota.store.values import Answer, Topic

_READY, _SCHEDULED, _BLOCKED = State.READY.value, State.SCHEDULED.value, State.BLOCKED.value
_TOPICS = {_READY: Topic.READY, _SCHEDULED: Topic.DUE}
# From this number of jobs on, COPY is worth its two extra round trips.
MANY = 50
_row = columns.row_maker(columns.LISTS["postgres"]["jobs.inserted"])
_INSERTED = tuple(column.name for column in columns.LISTS["postgres"]["jobs.inserted"])


async def submit(unit: Unit, who: Principal, orders: Sequence[Sequence[NewJob]], key_life: Duration) -> list[Answer]:
    return await quotas.submit(unit, who, orders, lambda some: _submit(unit, who, some, key_life))


async def _submit(unit: Unit, who: Principal, orders: Sequence[Sequence[NewJob]], key_life: Duration) -> list[Answer]:
    plain = [job for order in orders if not _special(order) for job in order]
    special = [order for order in orders if _special(order)]
    if plain and special:
        await unit.begin()
    if plain:
        await insert(unit, who.user, plain)
    answers = iter(await _accept(unit, who, special, key_life) if special else ())
    return [next(answers) if _special(order) else [Submitted(job.id, True) for job in order] for order in orders]


def _special(order: Sequence[NewJob]) -> bool:
    return not all(job.plain for job in order)


async def insert(unit: Unit, owner: str, jobs: Sequence[NewJob], blocked: Collection[str] = ()) -> None:
    """`blocked`: ids of jobs that wait for parents or earlier fires."""
    database = unit.database
    await unit.look_at_the_clock()
    now = database.now()
    # A job with a due time is ready only if that time has certainly passed; the promoter decides the rest.
    surely = now - (database.server_clock.doubt if database.server_time else 0)
    rows: list[tuple[Any, ...]] = []
    states: set[str] = set()
    step = database.ageing_step
    for job, text in zip(jobs, columns.texts(jobs), strict=True):
        at_once = job.at <= surely if job.at is not None else not job.delay
        run_at = now if at_once else due(job, now)
        expires_at = None if job.expires is None else run_at + job.expires
        state = _BLOCKED if job.id in blocked else _READY if at_once else _SCHEDULED
        states.add(state)
        if expires_at is not None:
            states.add(_SCHEDULED)  # an expiry is awaited like a due time
        rows.append(_row(
            job, retry=text.retry, requirements=text.requirements, special=text.special, owner=owner, state=state,
            rank=rank(run_at, job.priority, step), run_at=run_at, expires_at=expires_at, created_at=now,
        ))  # fmt: skip
    unit.topics |= {topic for state, topic in _TOPICS.items() if state in states}
    if len(rows) >= MANY:
        await unit.copy("jobs", _INSERTED, rows)
    else:
        await unit.run("insert_jobs", **dict(zip(_INSERTED, map(list, zip(*rows, strict=True)), strict=True)))


def due(job: NewJob, now: Instant) -> Instant:
    """A time in the past means now; a time beyond the calendar means its end."""
    at = job.at if job.at is not None else now + job.delay
    return min(max(at, now), LATEST)


async def _accept(unit: Unit, who: Principal, orders: Sequence[Sequence[NewJob]], key_life: Duration) -> list[Answer]:
    strays = [stray(order) for order in orders]
    rows = await unit.rows(
        "accept", owner=who.user, key_life=key_life, step=unit.database.ageing_step, now=unit.now,
        orders=[wire(order) for order, missing in zip(orders, strays, strict=True) if missing is None],
    )  # fmt: skip
    given = iter(rows)
    answers: list[Answer] = []
    for missing in strays:
        if missing is not None:
            answers.append(missing)
            continue
        answer, rings = read_answer(next(given)[0])
        unit.topics |= rings
        answers.append(answer)
    return answers


async def replay(unit: Unit, who: Principal, ids: Sequence[str], again: bool = False) -> list[bool]:
    await unit.begin()
    await quotas.hold(unit, who)
    found = await unit.rows("lock_history", ids=ids_only(ids), sees=who.sees)
    takes = sources(JobEvent.RERUN if again else JobEvent.REPLAY)
    chosen = {job: about for job, state, *about in found if State(state) in takes}
    if chosen:
        await graph.reopen(unit, list(chosen))
        await quotas.take_made(unit, who, len(chosen))
        await unit.emit_for_jobs("job.replayed", _told(chosen, who))
        unit.topics.add(Topic.DUE)
    return [job in chosen for job in ids]


async def purge(unit: Unit, who: Principal, ids: Sequence[str]) -> list[bool]:
    await unit.begin()
    chosen = {job: about for job, _, *about in await unit.rows("lock_history", ids=ids_only(ids), sees=who.sees)}
    kept = set(await graph.settled(unit, list(chosen))) if chosen else set()
    chosen = {job: about for job, about in chosen.items() if job in kept}
    if chosen:
        await unit.emit_for_jobs("job.purged", _told(chosen, who))
        await delete(unit, list(chosen))
        await sealing.list_purged(unit, chosen)
    return [job in chosen for job in ids]


def _told(chosen: Mapping[str, Sequence[str]], who: Principal) -> list[tuple[str, str, dict[str, Any]]]:
    """Events of jobs, each with its owner, queue and task."""
    return [
        (job, owner, {"queue": queue, "task": task, "by": who.user}) for job, (owner, queue, task) in chosen.items()
    ]


async def delete(unit: Unit, ids: Sequence[str]) -> None:
    for name in (
        "delete_output", "delete_attempts", "delete_progress", "forget_states", "delete_edges", "delete_members",
        "delete_history",
    ):  # fmt: skip
        await unit.run(name, ids=ids)

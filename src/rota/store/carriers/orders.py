"""Changes of jobs that people ask for: cancelled, run sooner, given another priority."""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.lifecycle import INITIAL, State
from rota.model.principal import Principal
from rota.store.carriers.unit import Unit
from rota.store.values import Cancelling, Topic


async def cancel(unit: Unit, who: Principal, ids: Sequence[str], reason: str) -> list[Cancelling]:
    await unit.begin()
    states = await _states(unit, who, ids)
    waiting = [job for job, state in states.items() if state in INITIAL]
    running = [job for job, state in states.items() if state is State.RUNNING]
    if waiting:
        await unit.run("cancel_waiting", ids=waiting, now=unit.now, reason=reason)
        await unit.settle(waiting)
        unit.topics.add(Topic.NEWS)
    if running:
        await unit.run("cancel_running", ids=running, reason=reason)
        unit.topics.add(Topic.CANCEL)
    return [Cancelling.of(states.get(job)) for job in ids]


async def _states(unit: Unit, who: Principal, ids: Sequence[str]) -> dict[str, State]:
    """Live jobs are read first: a job may end between the two reads, but hardly ever comes back."""
    wanted = unit.ids(ids)
    live = await unit.rows("lock_jobs", ids=wanted, sees=who.sees)
    ended = await unit.rows("lock_history", ids=wanted, sees=who.sees) if len(live) < len(set(wanted)) else []
    return {job: State(state) for job, state, *_ in (*ended, *live)}


async def hurry(unit: Unit, who: Principal, ids: Sequence[str]) -> list[bool]:
    await unit.begin()
    rows = await unit.rows("lock_jobs", ids=unit.ids(ids), sees=who.sees)
    chosen = {job for job, state, _ in rows if state == State.SCHEDULED}
    if chosen:
        await unit.run("hurry_jobs", ids=sorted(chosen), now=unit.now, step=unit.ageing_step)
        unit.topics.add(Topic.DUE)
    return [job in chosen for job in ids]


async def reprioritise(unit: Unit, who: Principal, ids: Sequence[str], priority: int) -> list[bool]:
    await unit.begin()
    rows = await unit.rows("lock_jobs", ids=unit.ids(ids), sees=who.sees)
    chosen = {job for job, state, _ in rows if state in INITIAL}
    if chosen:
        await unit.run("reprioritise", ids=sorted(chosen), priority=priority, step=unit.ageing_step)
        unit.topics.add(Topic.READY)
    return [job in chosen for job in ids]

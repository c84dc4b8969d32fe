"""Statistics: counting ended jobs into tallies, and reading them.

Most questions are about all tasks of a queue, and a history of minutes would add up a row for each task of each minute.
So every tally is kept twice: by task, and under the negative of its grain for all tasks together. Nodes of a version
that did not know the latter count without them; `QUEUES` says up to where and `QUEUES_SINCE` from where on they are
complete, and others are read by task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from rota.model.lifecycle import State
from rota.model.principal import Principal
from rota.model.statistics import GRAINS, History, JobTally, Statistics, Window, buckets, default_step, statistics
from rota.model.times import SECOND, Instant, aware
from rota.store.carriers.unit import Columns, Unit
from rota.store.statistics import SETTLED

# Tasks of one step that get tallies of their own; the others are counted without a task. Names of commands may be as
# many as jobs, and the tallies of a day must not be.
MOST_TASKS = 1_000
NO_TASK = ""
# Cursors: jobs that ended until then are in the tallies; they are in those of all tasks, too, since then.
ENDED, QUEUES, QUEUES_SINCE = "ended", "queues", "queues since"
# Tries to read while the tallier is at work.
TRIES = 5
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(JobTally).decode
K = TypeVar("K")


class Place(NamedTuple):
    at: Instant
    owner: str
    queue: str
    task: str


class Step(NamedTuple):
    """Jobs that ended after one moment and until another, counted."""

    after: Instant
    until: Instant
    tallies: dict[Place, JobTally]  # by minute
    more: bool


# -- counting --------------------------------------------------------------------------------------------------------
async def next_step(unit: Unit, limit: int) -> Step | None:
    """What there is to count; None: nothing."""
    after = (await _cursors(unit)).get(ENDED, 0)
    until = await unit.value("tally_until", after=after, settled=SETTLED, limit=limit, now=unit.now)
    if until is None:
        return None
    tallies = await _ended(unit, after, until)
    counted = sum(one.ended for one in tallies.values())
    return Step(after, until, _few(tallies), counted >= limit)


async def keep_step(unit: Unit, step: Step) -> bool:
    """Adds the counts to the tallies, unless another node has counted these jobs meanwhile."""
    await unit.begin()
    if step.after == 0:
        await unit.run("start_tallying")
    if not await unit.run("tallied", after=step.after, until=step.until):
        return False
    if (await _cursors(unit)).get(QUEUES) != step.after:
        await unit.run("put_tally_cursor", part=QUEUES_SINCE, until=step.after)
    await unit.run("put_tally_cursor", part=QUEUES, until=step.until)
    added = _in_grains(step)
    keys = _columns(added)
    for grain, at, owner, queue, task, body in await unit.rows("same_tallies", keys):
        added[grain, Place(at, owner, queue, task)].add(_decode(body))
    bodies = [_encode(one).decode() for one in added.values()]
    await unit.run("put_tallies", {**keys, "bodies": bodies})
    for grain, kept in GRAINS.items():
        for one in (grain, -grain):
            await unit.run("delete_old_tallies", grain=one, before=step.until - kept)
    return True


async def _cursors(unit: Unit) -> dict[str, Instant]:
    return dict(await unit.rows("tally_cursors"))


async def _ended(
    unit: Unit,
    after: Instant,
    until: Instant,
    sees: str | None = None,
    queue: str | None = None,
    task: str | None = None,
) -> dict[Place, JobTally]:
    rows = await unit.rows("ended_tallies", after=after, until=until, sees=sees, queue=queue, task=task)
    found: dict[Place, JobTally] = {}
    for row in rows:
        found.setdefault(Place(*row[:4]), JobTally()).count(*row[4:])
    return found


def _few(tallies: dict[Place, JobTally]) -> dict[Place, JobTally]:
    tasks: dict[tuple[str, str, str], int] = {}
    for place, one in tallies.items():
        tasks[place[1:]] = tasks.get(place[1:], 0) + one.ended
    if len(tasks) <= MOST_TASKS:
        return tallies
    often = {*sorted(tasks, key=lambda task: (-tasks[task], task))[:MOST_TASKS]}
    return _grouped(tallies, lambda place: place if place[1:] in often else place._replace(task=NO_TASK))


def _in_grains(step: Step) -> dict[tuple[int, Place], JobTally]:
    """The tallies of all lengths that are kept for so long, by task and of all tasks."""
    found: dict[tuple[int, Place], JobTally] = {}
    of_queues = _grouped(step.tallies, lambda place: place._replace(task=NO_TASK))
    for grain, kept in GRAINS.items():
        for key, tallies in ((grain, step.tallies), (-grain, of_queues)):
            for place, one in tallies.items():
                if place.at >= step.until - kept:
                    begins = place._replace(at=place.at // grain * grain)
                    found.setdefault((key, begins), JobTally()).add(one)
    return dict(sorted(found.items()))


def _grouped(tallies: Mapping[Place, JobTally], key: Callable[[Place], K]) -> dict[K, JobTally]:
    found: dict[K, JobTally] = {}
    for place, one in tallies.items():
        found.setdefault(key(place), JobTally()).add(one)
    return found


def _columns(tallies: Mapping[tuple[int, Place], JobTally]) -> Columns:
    return {
        "grains": [grain for grain, _ in tallies],
        "ats": [place.at for _, place in tallies],
        "owners": [place.owner for _, place in tallies],
        "queues": [place.queue for _, place in tallies],
        "tasks": [place.task for _, place in tallies],
    }


# -- reading ---------------------------------------------------------------------------------------------------------
def _sees(who: Principal, window: Window) -> str | None:
    """The owner whose jobs are counted; None: everyone's."""
    return None if who.operates and not window.own else who.user


async def read(unit: Unit, who: Principal, window: Window) -> Statistics:
    now, sees = await unit.value("moment", now=unit.now), _sees(who, window)
    since = window.begins(now)
    live: dict[str, dict[str, int]] = {}
    oldest: dict[str, Instant] = {}
    rows = await unit.rows("living_states", sees=sees, queue=window.queue, task=window.task)
    for queue, state, count, due in rows:
        live.setdefault(queue, {})[state] = count
        if state == State.READY:
            oldest[queue] = due
    tallies = _summed(await _counts(unit, sees, window, since, now), lambda _, queue: queue)
    return statistics(now, since, sees is None, live, oldest, tallies)


async def history(unit: Unit, who: Principal, window: Window) -> History:
    now, sees = await unit.value("moment", now=unit.now), _sees(who, window)
    step = window.step or default_step(window.span)
    window = msgspec.structs.replace(window, step=step)
    since = window.begins(now)
    tallies = _summed(await _counts(unit, sees, window, since, now), lambda at, _: at // step * step)
    return History(aware(now), step / SECOND, sees is None, buckets(since, now, step, tallies))


class Count(NamedTuple):
    at: Instant
    queue: str
    tally: JobTally


def _summed(counts: Iterable[Count], key: Callable[[Instant, str], K]) -> dict[K, JobTally]:
    found: dict[K, JobTally] = {}
    for at, queue, tally in counts:
        found.setdefault(key(at, queue), JobTally()).add(tally)
    return found


async def _counts(unit: Unit, sees: str | None, window: Window, since: Instant, now: Instant) -> list[Count]:
    """The tallies, the jobs that have ended since they were made, and the orders and starts of jobs that live."""
    which = {"sees": sees, "queue": window.queue, "task": window.task}
    found: list[Count] = []
    for _ in range(TRIES):
        cursors = await _cursors(unit)
        after = cursors.get(ENDED, 0)
        of_queues = window.task is None and cursors.get(QUEUES) == after and since > cursors[QUEUES_SINCE]
        grain = -window.grain if of_queues else window.grain
        rows = await unit.rows("tally_rows", grain=grain, since=since, **which)
        found = [Count(at, queue, _decode(body)) for at, queue, body in rows]
        lately = await _ended(unit, max(after, since - 1), now, **which)
        found += [Count(place.at, place.queue, one) for place, one in lately.items() if place.at >= since]
        if (await _cursors(unit)).get(ENDED, 0) == after:
            break  # else jobs were counted meanwhile, and some are in both parts
    for at, queue, what, count in await unit.rows("living_tallies", since=since, **which):
        found.append(Count(at, queue, JobTally(**{what: count})))
    return found

"""Findings of `rota doctor` about jobs and schedules, the same on every store."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rota.model.job import Kind
from rota.model.times import SECOND, Duration, Instant, iso, short
from rota.store.carriers import offers
from rota.store.carriers.unit import Unit
from rota.store.values import Finding

# A schedule that has been due for longer has no node that fires it.
LATE: Duration = 10 * SECOND
MOST_TASKS = 5
MOST_SCHEDULES = 3


async def examine(unit: Unit, now: Instant) -> list[Finding]:
    return [
        await _holders(unit), await _kinds(unit), await _tasks(unit), await _schedules(unit, now),
        await _declared(unit), await _segments(unit),
    ]  # fmt: skip


async def _holders(unit: Unit) -> Finding:
    count = len(await unit.rows("stray_holders"))
    bad = f"running jobs are held by {count} nodes that are not alive"
    return Finding("running jobs", count == 0, bad if count else "every running job has a living node")


async def _kinds(unit: Unit) -> Finding:
    unknown = sorted({kind for (kind,) in await unit.rows("ready_kinds")} - set(Kind))
    text = f"ready jobs of kinds that no node runs: {', '.join(unknown)}" if unknown else "all known"
    return Finding("kinds", not unknown, text)


async def _tasks(unit: Unit) -> Finding:
    found = await offers.unoffered(unit)
    if not found:
        return Finding("tasks", True, "all were offered")
    names = ", ".join(f"{one.task} (queue {one.queue}, since {iso(one.since)})" for one in found[:MOST_TASKS])
    more = f" and {len(found) - MOST_TASKS} more" if len(found) > MOST_TASKS else ""
    return Finding("tasks", False, f"jobs wait for functions that no node has ever offered: {names}{more}")


async def _schedules(unit: Unit, now: Instant) -> Finding:
    broken = [name for (name,) in await unit.rows("broken_schedules")]
    if broken:
        return Finding("schedules", False, f"set aside: {_first(broken)}; `rota schedule show` tells why")
    next_at = await unit.value("next_schedule_after", until=-1)
    if next_at is not None and next_at < now - LATE:
        text = f"nobody fires them: one has been due for {short((now - next_at) // SECOND * SECOND)}"
        return Finding("schedules", False, f"{text}; a node with the role control does it")
    return Finding("schedules", True, "none is set aside or late")


async def _declared(unit: Unit) -> Finding:
    names = [name for (name,) in await unit.rows("undeclared_schedules")]
    if not names:
        return Finding("declared schedules", True, "all are declared by their apps")
    # Many schedules get a placeholder: a person should look at each before removing it.
    remove = f"`rota schedule remove {shlex.join(names) if len(names) <= MOST_SCHEDULES else 'NAME'}`"
    found = f"not declared by the node of their app that started last: {_first(names)}"
    cure = f"start one that imports their modules, or, if they are gone for good, {remove}"
    return Finding("declared schedules", False, f"{found}; {cure}")


async def _segments(unit: Unit) -> Finding:
    count, size = (await unit.rows("damaged_segments"))[0]
    bad = f"{count} segments with {size:,} bytes of output are damaged and were set aside; the other output is fine"
    return Finding("sealed output", not count, bad if count else "nothing is damaged")


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_SCHEDULES]) + (", ..." if len(names) > MOST_SCHEDULES else "")

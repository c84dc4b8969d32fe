"""Events about fires of schedules: an entry of the outbox for each fire that was made, and for each run of skipped
ones."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rota.model.times import iso
from rota.model.trigger.records import FireKind, NewFire
from rota.model.trigger.skipped import Skipped
from rota.store.carriers.unit import Columns, Unit

FIRED, SKIPPED = "schedule.fired", "schedule.skipped"
_encode = msgspec.json.Encoder().encode


def about_fire(kind: FireKind, fire: NewFire) -> str:
    """The data of `schedule.fired`, as JSON."""
    about = {"fire_time": iso(fire.fire), "job": fire.job.id, "kind": kind.value}
    return _encode(about | {"queue": fire.job.queue, "task": fire.job.task}).decode()


def about_skip(one: Skipped) -> str:
    about = {"fire_time": iso(one.first), "last": iso(one.last), "count": one.count, "reason": one.reason.value}
    return _encode(about).decode()


async def append(unit: Unit, kind: str, told: Sequence[tuple[str, str, str]]) -> None:
    """Appends an entry for each (owner, schedule, data)."""
    if told:
        owners, names, data = (list(column) for column in zip(*told, strict=True))
        columns: Columns = {"owners": owners, "subjects": names, "data": data}
        await unit.run("append_events", columns, kind=kind, now=unit.now)

"""Orders, schedules and fires as rota's own clients send them, with ids that were never used before."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec

from rota.model.graph import Edge
from rota.model.job import NewJob, Spec
from rota.model.trigger import schedule as timing
from rota.model.trigger import template as work
from rota.model.trigger.policies import Overlap
from rota.model.trigger.reading import read_schedule
from rota.model.trigger.records import Advance, NewFire, NewSchedule
from rota.model.trigger.template import Template

_COMMAND = Spec.command(["true"])
_numbers = count()


def new_id() -> str:
    return f"0198c0de-0000-7000-8000-{next(_numbers):012x}"


def order(after: str | None = None) -> Any:
    edges = () if after is None else (Edge(after),)
    return msgspec.to_builtins(NewJob(id=new_id(), task="true", spec=_COMMAND, after=edges))


def schedule(user: str, name: str) -> Any:
    found = read_schedule(user, name, {"cron": "0 3 * * *"}, 0)
    template = work.to_json(Template(task="true", spec=_COMMAND))
    return msgspec.to_builtins(
        NewSchedule(
            name=name, timing=timing.to_json(found), work=template, overlap=Overlap.ALLOW, since=5, next_at=1 << 50
        )
    )


def fire() -> Any:
    return msgspec.to_builtins(NewFire(next(_numbers) + 1, NewJob(id=new_id(), task="true", spec=_COMMAND)))


def advance(user: str, name: str, revision: int) -> Any:
    return msgspec.to_builtins(
        Advance(
            owner=user, name=name, revision=revision, before=1, fires=[], skips=[], handled=5, next_at=None, limit=None,
            overlap=Overlap.ALLOW,
        )
    )  # fmt: skip

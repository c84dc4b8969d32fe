"""Secrets of orders: attempts get them, and no read shows them."""

from __future__ import annotations

from typing import Any

import pytest

from rota.model.job import Membership, Spec
from rota.model.principal import LOCAL
from rota.model.query.parse import parse
from rota.store.values import JobFilter
from tests.contracts.world import FATAL, World

SECRET = Spec.function("f").with_secrets(["password"])
ARGS: dict[str, Any] = {"task": "f", "spec": SECRET, "args": '{"password":"hunter2","user":"ann"}'}


async def test_attempts_get_what_nobody_is_shown(world: World) -> None:
    actor = await world.node()
    job = await world.one(**ARGS)
    claimed = await actor.run(FATAL, job)
    assert (claimed.args, claimed.spec) == (ARGS["args"], SECRET.body)
    info = await world.info(job)
    assert info.args == {"password": "***", "user": "ann"}
    assert info.spec == {"name": "f", "secrets": ["password"]}
    assert "hunter2" not in str(await world.store.find(LOCAL, JobFilter()))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("args.password:hunter*", ["open"]),
        ("args.password=hunter2", ["open"]),
        ("args.password>hunter1", ["open"]),
        ("args.password~UNTER", ["open"]),
        ("-args.password:hunter*", ["secret"]),
        ("NOT (args.password:hunter2 OR user:nobody)", ["secret"]),
        ("args.again:hunter2", ["open"]),
        ("args.password:*", ["open", "secret"]),
        ("args.user:ann", ["open", "secret"]),
        ("-args.user:ann", []),
    ],
)
async def test_queries_tell_nothing_of_them(world: World, query: str, found: list[str]) -> None:
    """Not even whether they begin with some letters: neither waiting nor ended."""
    args = '{"password":"hunter2","user":"ann","again":"hunter2"}'
    actor = await world.node()
    jobs = {
        await world.one(task="f", spec=spec, args=args): name
        for name, spec in (("secret", SECRET), ("open", Spec.function("f")))
    }
    fitting = JobFilter(where=parse(query, 0))
    for ended in (False, True):
        if ended:
            for job in jobs:
                await actor.run(FATAL, job)
        assert sorted(jobs[info.id] for info in await world.store.find(LOCAL, fitting)) == found
        assert (await world.store.counted(LOCAL, fitting)).number == len(found)


async def test_a_replay_has_them_still(world: World) -> None:
    actor = await world.node()
    job = await world.one(**ARGS)
    await actor.run(FATAL, job)
    await world.store.replay(LOCAL, [job])
    await world.promote()
    assert (await actor.take(job)).args == ARGS["args"]


async def test_drawings_of_workflows_leave_out_their_arguments(world: World) -> None:
    flow = Membership("01900000-0000-7000-8000-000000000001", "w")
    plain = {"task": "f", "spec": Spec.function("f"), "args": '{"n":1}'}
    await world.submit(world.job(workflow=flow, **ARGS), world.job(workflow=flow, **plain))
    members = await world.store.workflow(LOCAL, flow.id)
    assert [one.args for one in members] == ["", '{"n":1}']

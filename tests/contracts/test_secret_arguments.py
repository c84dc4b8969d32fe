"""Secrets of orders: attempts get them, and no read shows them."""

from __future__ import annotations

from typing import Any

from rota.model.job import Membership, Spec
from rota.model.principal import LOCAL
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

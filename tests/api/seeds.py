"""Things of a user: jobs in all states, workflows, schedules, gates, limits, locks, keys, a worker's attempt, and more.

Each kind has a name in `Things`, so that the same request can be made for what a user owns, for what another owns, and
for what was never there.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rota.model.access import Role
from rota.model.principal import Principal
from rota.model.task import TaskInfo
from rota.model.times import HOUR, SECOND
from rota.remote.work_calls import ClaimedJobs
from tests.api.caller import Caller, Reply, secret
from tests.contracts.world import DONE, FATAL, World

COMMAND = {"command": ["true"]}
HOLDER = "a holder"  # of locks
ABSENT = "00000000-0000-7000-8000-00000000000"
TASKS = [TaskInfo("hello", ("name",), ("name",), types={"name": ("string",)}), TaskInfo("true")]


class Things(msgspec.Struct, frozen=True, kw_only=True):
    """Ids and names. `worker`: the incarnation of a far-away worker of the user, which holds the attempt `job` `fence`
    with `ticket`."""

    user: str
    ready: str
    failed: str
    dead: str
    done: str
    later: str
    blocked: str
    workflow: str
    ended_workflow: str
    workflow_name: str
    schedule: str
    revision: int
    calendar: str
    gate: str
    limit: str
    lock: str
    queue: str
    key: str
    label: str
    worker: str
    running: str
    fence: int
    ticket: str
    output: str  # the cursor of a page of the output of the job `failed`


def absent(things: Things) -> Things:
    """Names of the same form that nobody owns."""
    made: dict[str, Any] = {"user": things.user, "revision": things.revision, "fence": things.fence}
    for place, (name, value) in enumerate(msgspec.structs.asdict(things).items()):
        if name not in made:
            made[name] = f"{ABSENT}{place % 10}" if str(value).count("-") == 4 else f"absent{place}"
    return Things(**made | {"ticket": things.ticket, "output": things.output})


async def seed(world: World, caller: Caller, user: str, number: int = 0) -> Things:
    """All of them, new; `number` keeps the names of several seeds of a user apart."""
    mark = f"{user}s-{number}"
    key = secret(Role.ADMIN, user)
    who = Principal(user)

    async def made(method: str, path: str, body: Any) -> Any:
        reply: Reply = await caller.with_json(method, f"/api/v1{path}", body, key=key)
        assert reply.status in (200, 201), (path, reply)
        return reply.json

    node = await world.node(tasks=TASKS)
    failed, dead, done = await world.several(3, who, queue=mark)
    claimed = {one.job_id: one for one in await node.claim(queue=mark)}
    await node.say(claimed[failed].ref, 0)
    for job in (failed, dead):
        await node.finish(claimed[job], FATAL)
    await node.finish(claimed[done], DONE)
    flow = {"name": mark, "jobs": [COMMAND | {"name": "a"}, COMMAND | {"name": "b", "after": ["a"]}]}
    ended = await made("POST", "/workflows", flow)
    await made("POST", f"/workflows/{ended['id']}/cancel", {})
    living = await made("POST", "/workflows", flow)
    schedule = await made("PUT", f"/schedules/{mark}", {"every": "1h", "job": COMMAND})
    await made("POST", f"/schedules/{mark}/fire", None)
    await made("PUT", f"/calendars/{mark}", {"dates": ["2027-01-01"]})
    gate = await made("POST", "/gates", {"queue": f"{mark}-gated", "reason": mark})
    await made("PUT", f"/limits/{mark}", {"concurrency": 1})
    await caller.post("/api/v1/users", {"name": user}, key=key)  # who may be there
    await world.store.acquire_lock(who, mark, HOLDER, HOUR)
    access = await made("POST", "/keys", {"user": user, "role": "submitter", "name": mark})
    output = await caller.get(f"/api/v1/jobs/{failed}/output", key=key)
    later = await world.one(who, delay=3600 * SECOND)
    ready = (await made("POST", "/jobs", COMMAND | {"queue": f"{mark}-idle", "labels": [mark]}))["id"]
    return Things(
        user=user, ready=ready, failed=failed, dead=dead, done=done, later=later, blocked=living["jobs"]["b"],
        workflow=living["id"], ended_workflow=ended["id"], workflow_name=mark, schedule=mark,
        revision=schedule["revision"], calendar=mark, gate=gate["id"], limit=mark, lock=mark, queue=f"{mark}-idle",
        key=access["key"]["id"], label=mark, output=output.json["next"], **await attempt(world, caller, user, number),
    )  # fmt: skip


async def attempt(world: World, caller: Caller, user: str, number: int) -> dict[str, Any]:
    """A running attempt of a far-away worker of the user."""
    incarnation, queue = f"{user}worker{number}x{world.chance.token()[:8]}", f"{user}-far-{number}"
    key = secret(Role.WORKER, user)
    await world.one(Principal(user), queue=queue)
    join = {
        "incarnation": incarnation, "id": incarnation, "roles": ["worker"], "queues": {queue: 4}, "version": "1.0",
        "lease": 10 * SECOND, "tasks": [{"name": "true"}],
    }  # fmt: skip
    joined = await caller.post("/api/v1/worker/register", join, key=key)
    assert joined.status == 204, joined
    claim = {
        "incarnation": incarnation, "claim": "first", "wants": {queue: 1}, "kinds": ["command", "function"],
        "start": {queue: 1},
    }  # fmt: skip
    reply = await caller.post("/api/v1/worker/claim", claim, key=key)
    assert reply.status == 200, reply
    found = msgspec.json.decode(reply.body, type=ClaimedJobs)
    (job,), (ticket,) = found.jobs, found.tickets
    return {"worker": incarnation, "running": job.job_id, "fence": job.fence, "ticket": ticket}

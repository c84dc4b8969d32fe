"""Requests of every unsafe route, for tests that send them again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from rota.model.principal import SYSTEM
from rota.model.times import DAY, HOUR, iso
from rota.store.people import AuditFilter
from tests.api.caller import Caller, Reply
from tests.api.resources.conftest import ANN
from tests.api.resources.test_schedules import NIGHTLY
from tests.contracts.world import FATAL, PLENTY, World

KEY = {"idempotency-key": "5f1c"}
SCHEDULE = "/api/v1/schedules/nightly"
GATE = {"queue": "mail", "reason": "the server is down", "for": "1h"}
Asked = tuple[str, str, Any]  # method, path and body
Prepare = Callable[[World, Caller], Awaitable[Asked]]


def given(method: str, path: str, body: Any = None) -> Prepare:
    async def prepare(world: World, caller: Caller) -> Asked:
        return method, path, body

    return prepare


def of_waiting(deed: str, body: Any = None) -> Prepare:
    async def prepare(world: World, caller: Caller) -> Asked:
        return "POST", f"/api/v1/jobs/{await world.one(ANN, delay=DAY)}/{deed}", body

    return prepare


def of_dead(path: str) -> Prepare:
    async def prepare(world: World, caller: Caller) -> Asked:
        return "POST", path.format(await dead(world)), None

    return prepare


def many(path: str, body: Any) -> Prepare:
    async def prepare(world: World, caller: Caller) -> Asked:
        await dead(world)
        await world.several(3, ANN, delay=DAY)
        return "POST", path, body

    return prepare


def of_schedule(method: str, deed: str = "", body: Any = None) -> Prepare:
    async def prepare(world: World, caller: Caller) -> Asked:
        await caller.put(SCHEDULE, NIGHTLY)
        if deed == "/resume":
            await caller.post(f"{SCHEDULE}/pause")
        return method, SCHEDULE + deed, body

    return prepare


def of_workflow(deed: str, run: bool = False) -> Prepare:
    async def prepare(world: World, caller: Caller) -> Asked:
        made = await caller.post("/api/v1/workflows", {"name": "w", "jobs": [{"name": "a", "command": ["true"]}]})
        if run:
            await (await world.node(tasks=())).run(FATAL)
        return "POST", f"/api/v1/workflows/{made.json['id']}/{deed}", None

    return prepare


async def backfill(world: World, caller: Caller) -> Asked:
    await caller.put(SCHEDULE, NIGHTLY)
    now = world.clock.now()
    return "POST", f"{SCHEDULE}/backfill", {"from": iso(now - 3 * DAY), "to": iso(now - HOUR)}


async def closed_gate(world: World, caller: Caller) -> Asked:
    return "POST", f"/api/v1/gates/{(await caller.post('/api/v1/gates', GATE)).json['id']}/open", None


async def calendar(world: World, caller: Caller) -> Asked:
    await caller.put("/api/v1/calendars/off", {"dates": ["2027-12-24"]})
    return "DELETE", "/api/v1/calendars/off", None


async def lock(world: World, caller: Caller) -> Asked:
    await world.store.acquire_lock(ANN, "report", "holder", HOUR)
    return "DELETE", "/api/v1/locks/report", None


async def limit(world: World, caller: Caller) -> Asked:
    await caller.put("/api/v1/limits/db", {"concurrency": 5})
    return "DELETE", "/api/v1/limits/db", None


def of_user(method: str, path: str, body: Any = None) -> Prepare:
    async def prepare(world: World, caller: Caller) -> Asked:
        await caller.post("/api/v1/users", {"name": "bea"})
        return method, path, body

    return prepare


def of_key(method: str, deed: str = "", body: Any = None) -> Prepare:
    async def prepare(world: World, caller: Caller) -> Asked:
        await caller.post("/api/v1/users", {"name": "bea"})
        made = await caller.post("/api/v1/keys", {"user": "bea", "role": "viewer"})
        return method, f"/api/v1/keys/{made.json['key']['id']}{deed}", body

    return prepare


async def dead(world: World) -> str:
    job = await world.one(ANN)
    await (await world.node()).run(FATAL)
    return job


ROUTES: dict[str, Prepare] = {
    "cancel_job": of_waiting("cancel"),
    "retry_job": of_dead("/api/v1/jobs/{}/retry"),
    "set_priority": of_waiting("priority", {"priority": 1}),
    "cancel_jobs": many("/api/v1/jobs/cancel", {"queue": "default"}),
    "retry_jobs": many("/api/v1/jobs/retry", {"queue": "default"}),
    "set_priorities": many("/api/v1/jobs/priority", {"queue": "default", "priority": 1}),
    "replay_dead": of_dead("/api/v1/dead/{}/replay"),
    "purge_dead": of_dead("/api/v1/dead/{}/purge"),
    "replay_all_dead": many("/api/v1/dead/replay", {"queue": "default"}),
    "purge_all_dead": many("/api/v1/dead/purge", {"queue": "default"}),
    "cancel_workflow": of_workflow("cancel"),
    "retry_workflow": of_workflow("retry", run=True),
    "replay_workflow": of_workflow("replay", run=True),
    "put_schedule": given("PUT", SCHEDULE, NIGHTLY | {"paused": True, "note": "later"}),
    "remove_schedule": of_schedule("DELETE"),
    "pause_schedule": of_schedule("POST", "/pause", {"note": "n"}),
    "resume_schedule": of_schedule("POST", "/resume"),
    "fire_schedule": of_schedule("POST", "/fire"),
    "backfill_schedule": backfill,
    "preview_schedule": given("POST", "/api/v1/schedule-preview", {"cron": "0 3 * * *", "count": 3}),
    "put_calendar": given("PUT", "/api/v1/calendars/off", {"dates": ["2027-12-24"]}),
    "remove_calendar": calendar,
    "close_gate": given("POST", "/api/v1/gates", GATE),
    "open_gate": closed_gate,
    "set_limit": given("PUT", "/api/v1/limits/db", {"concurrency": 5}),
    "remove_limit": limit,
    "free_lock": lock,
    "pause_queue": given("POST", "/api/v1/queues/mail/pause", {"note": "n"}),
    "resume_queue": given("POST", "/api/v1/queues/mail/resume"),
    "set_queue": given("PATCH", "/api/v1/queues/mail", {"step": "5m", "feedback": {"levels": 3}}),
    "add_user": given("POST", "/api/v1/users", {"name": "bea", "quotas": {"waiting": 7}}),
    "change_user": of_user("PATCH", "/api/v1/users/bea", {"quotas": {"waiting": 7}}),
    "remove_user": of_user("DELETE", "/api/v1/users/bea"),
    "add_key": of_user("POST", "/api/v1/keys", {"user": "bea", "role": "viewer", "expires": "90d"}),
    "rotate_key": of_key("POST", "/rotate", {"overlap": "1h"}),
    "revoke_key": of_key("DELETE"),
}


async def ask(caller: Caller, asked: Asked, headers: dict[str, str] | None = None, **more: Any) -> Reply:
    method, path, body = asked
    return await caller.with_json(method, path, body, headers=KEY | (headers or {}), **more)


def same(first: Reply, second: Reply) -> bool:
    return (first.status, first.headers, first.body) == (second.status, second.headers, second.body)


async def audit(world: World) -> list[Any]:
    return await world.store.audit(SYSTEM, AuditFilter(limit=PLENTY))

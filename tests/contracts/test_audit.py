"""The audit: one row for each accepted change by a person, in the transaction of the change (I22)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from rota.model.access import Role
from rota.model.access_keys import NewKey
from rota.model.feedback import Feedback
from rota.model.gates import Effect, match
from rota.model.limits import Limit, Rate
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.quotas import NO_QUOTAS, quotas
from rota.model.rank import STRICT
from rota.model.times import DAY, HOUR, SECOND
from rota.model.trigger.calendars import Calendar
from rota.model.trigger.records import FireKind, NewFire
from rota.store.admission import NewGate
from rota.store.base import Store
from rota.store.deeds import LONGEST_TEXT, MOST_SUBJECTS, Deed
from rota.store.people import AuditEntry, AuditFilter
from rota.store.values import Retention
from rota.store.verbs import Access, Caller, verbs
from tests.contracts.timetables import NAME, keep, minutely, new, standing
from tests.contracts.world import ALICE, FATAL, PLENTY, World

ANN = Principal("ann", operator=True, admin=True, key="k1")
GATE = NewGate("01900000-0000-7000-8000-000000000002", match(queue="q"), Effect.PAUSE, "why")
KEY = NewKey(id="ab", hash="hash", user="bea", role=Role.VIEWER, queues=("mail*",), name="laptop")
VERBS = verbs(Store)
AUDITED = {name for name, declared in VERBS.items() if declared.deed is not None}


# -- a call of each audited verb that changes something ---------------------------------------------------------------
async def waiting(world: World) -> str:
    return await world.one(ANN, delay=DAY)


async def dead(world: World) -> str:
    job = await world.one(ANN)
    await (await world.node()).run(FATAL)
    return job


async def order(world: World) -> tuple[Any, ...]:
    return ([[world.job()]],)


async def gate(world: World) -> tuple[Any, ...]:
    await world.store.close_gate(ANN, GATE)
    return (GATE.id,)


async def limit(world: World) -> tuple[Any, ...]:
    await world.store.set_limit(ANN, Limit("db", 1))
    return ("db",)


async def queue(world: World) -> tuple[Any, ...]:
    await world.store.pause_queue(ANN, "q", "")
    return ("q",)


async def schedule(world: World) -> tuple[Any, ...]:
    await keep(world, who=ANN)
    return NAME, "holiday"


async def paused(world: World) -> tuple[Any, ...]:
    await keep(world, who=ANN)
    await world.store.pause_schedule(ANN, NAME, "")
    return NAME, (await standing(world, who=ANN)).revision, world.clock.now()


async def standing_schedule(world: World) -> tuple[Any, ...]:
    info = await keep(world, who=ANN)
    return NAME, info.revision, info.handled, []


async def declared(world: World) -> tuple[Any, ...]:
    await world.store.put_schedule(ANN, new(minutely(who=ANN), world.clock.now(), app="mail"), None)
    return "mail", [(NAME, (await standing(world, who=ANN)).revision)]


async def broken(world: World) -> tuple[Any, ...]:
    return "ann", NAME, (await keep(world, who=ANN)).revision, "no such zone"


async def fire(world: World) -> tuple[Any, ...]:
    await keep(world, who=ANN)
    return NAME, FireKind.MANUAL, [NewFire(world.clock.now(), world.job())]


async def calendar(world: World) -> tuple[Any, ...]:
    await world.store.put_calendar(ANN, Calendar("off"))
    return ("off",)


async def lock(world: World) -> tuple[Any, ...]:
    await world.store.acquire_lock(ANN, "report", "holder", HOUR)
    return ("report",)


async def bea(world: World) -> None:
    await world.store.put_user(ANN, "bea", NO_QUOTAS, new=True)


async def user(world: World) -> tuple[Any, ...]:
    await bea(world)
    return ("bea",)


async def key_to_add(world: World) -> tuple[Any, ...]:
    await bea(world)
    return (KEY,)


async def key(world: World) -> tuple[Any, ...]:
    await bea(world)
    await world.store.add_key(ANN, KEY)
    return (KEY.id,)


async def key_to_rotate(world: World) -> tuple[Any, ...]:
    return *await key(world), "cd", "new hash", DAY, None


def of_job(prepare: Callable[[World], Awaitable[str]], *more: Any) -> Callable[[World], Awaitable[tuple[Any, ...]]]:
    async def given(world: World) -> tuple[Any, ...]:
        return ["01900000-0000-7000-8000-00000000dead", await prepare(world)], *more

    return given


def given(*arguments: Any) -> Callable[[World], Awaitable[tuple[Any, ...]]]:
    async def same(_: World) -> tuple[Any, ...]:
        return arguments

    return same


async def new_schedule(world: World) -> tuple[Any, ...]:
    return new(minutely(who=ANN), world.clock.now()), None


# The arguments; the subjects (None: the one job); the data.
Call = tuple[Callable[[World], Awaitable[tuple[Any, ...]]], list[str] | None, dict[str, Any]]
CALLS: dict[str, Call] = {
    "submit": (order, None, {}),
    "cancel": (of_job(waiting, "late"), None, {"reason": "late"}),
    "replay": (of_job(dead, True), None, {"again": True}),
    "hurry": (of_job(waiting), None, {}),
    "purge": (of_job(dead), None, {}),
    "reprioritise": (of_job(waiting, 0), None, {"priority": 0}),
    "close_gate": (
        given(GATE), [GATE.id],
        {"effect": "pause", "match": {"task": None, "queue": "q", "user": None, "label": None}, "reason": "why"},
    ),
    "open_gate": (gate, [GATE.id], {}),
    "set_limit": (
        given(Limit("db", 2, Rate(5, SECOND))), ["db"], {"concurrency": 2, "rate": "5/1s"},
    ),
    "remove_limit": (limit, ["db"], {}),
    "pause_queue": (given("q", "a note"), ["q"], {"note": "a note"}),
    "resume_queue": (queue, ["q"], {}),
    "set_step": (given("q", SECOND), ["q"], {"step": "1s"}),
    "set_feedback": (
        given("q", Feedback()), ["q"], {"rule": {"quantum": "10s", "levels": 5, "boost": "1m"}},
    ),
    "put_schedule": (new_schedule, [NAME], {}),
    "pause_schedule": (schedule, [NAME], {"note": "holiday"}),
    "resume_schedule": (paused, [NAME], {}),
    "remove_schedule": (standing_schedule, [NAME], {}),
    "undeclare_schedules": (declared, [NAME], {"app": "mail"}),
    "set_aside_schedule": (broken, [NAME], {"why": "no such zone"}),
    "make_fires": (fire, [NAME], {"kind": "manual"}),
    "put_calendar": (given(Calendar("off")), ["off"], {}),
    "remove_calendar": (calendar, ["off"], {}),
    "free_lock": (lock, ["report"], {}),
    "put_user": (
        given("bea", quotas("waiting=5,submissions=9/1m,output=2GB"), True), ["bea"],
        {"quotas": {"waiting": "5", "submissions": "9/1m", "output": "2GB"}},
    ),
    "remove_user": (user, ["bea"], {}),
    "add_key": (key_to_add, [KEY.id], {"user": "bea", "role": "viewer", "queues": ["mail*"], "name": "laptop"}),
    "revoke_key": (key, [KEY.id], {}),
    "rotate_key": (key_to_rotate, [KEY.id], {"new_id": "cd", "overlap": "1d"}),
}  # fmt: skip
# The same verbs with nothing to change.
IN_VAIN: dict[str, tuple[Any, ...]] = {
    "cancel": (["01900000-0000-7000-8000-00000000dead"], "late"),
    "replay": (["01900000-0000-7000-8000-00000000dead"],),
    "open_gate": (GATE.id,),
    "remove_limit": ("db",),
    "resume_queue": ("q",),
    "pause_schedule": (NAME, ""),
    "make_fires": (NAME, FireKind.MANUAL, []),
    "remove_calendar": ("off",),
    "free_lock": ("report",),
    "remove_user": ("bea",),
    "revoke_key": (KEY.id,),
    "rotate_key": (KEY.id, "cd", "hash", 0, None),
}


async def rows(world: World, who: Principal = SYSTEM, **query: Any) -> list[AuditEntry]:
    return await world.store.audit(who, AuditFilter(**{"limit": PLENTY, **query}))


async def call(world: World, verb: str, arguments: tuple[Any, ...], who: Principal = ANN) -> Any:
    return await getattr(world.store, verb)(who, *arguments)


def test_every_write_is_for_nodes_or_audited_or_named_here() -> None:
    writes = {name for name, one in VERBS.items() if one.access is Access.WRITE and one.by is not Caller.NODE}
    others = {"make_known", "advance", "watch", "acquire_lock", "renew_lock", "release_lock"}
    assert writes - AUDITED == others, "what code has, what time has brought, who listens, what code locks"
    assert set(CALLS) == AUDITED


@pytest.mark.parametrize("verb", sorted(CALLS))
async def test_an_accepted_change_has_one_row(world: World, verb: str) -> None:
    prepare, subjects, data = CALLS[verb]
    arguments = await prepare(world)
    before = await rows(world)
    await call(world, verb, arguments)
    (row,) = (await rows(world))[: -len(before) or None]
    assert (row.user, row.key, row.deed, row.at) == ("ann", "k1", verb, world.clock.now())
    if subjects is None:
        subjects = list(await world.all()) or arguments[0][-1:]  # (purged)
    assert list(row.subjects) == subjects
    assert (row.total, row.data) == (1, data)


@pytest.mark.parametrize("verb", sorted(CALLS))
async def test_a_change_without_its_row_is_no_change(world: World, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row is made after the change, and something fails then."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    arguments = await CALLS[verb][0](world)
    monkeypatch.setattr(Deed, "row", fail)
    async with world.unchanged():
        with world.backend.raises(ZeroDivisionError):
            await call(world, verb, arguments)


@pytest.mark.parametrize("verb", sorted(IN_VAIN))
async def test_nothing_changed_has_no_row(world: World, verb: str) -> None:
    async with world.unchanged():
        await call(world, verb, IN_VAIN[verb])
    assert await rows(world) == []


async def test_rota_itself_leaves_no_rows(world: World) -> None:
    for verb in ("pause_queue", "set_limit", "put_calendar", "put_user"):
        await call(world, verb, await CALLS[verb][0](world), SYSTEM)
    assert await rows(world) == []


async def test_orders_have_rows_if_they_came_by_a_key(world: World) -> None:
    await world.one(LOCAL)
    assert await rows(world) == []
    jobs = await world.several(MOST_SUBJECTS + 5, ANN)
    (row,) = await rows(world)
    assert (row.deed, row.key, row.total) == ("submit", "k1", MOST_SUBJECTS + 5)
    assert row.subjects == tuple(jobs[:MOST_SUBJECTS])
    await world.one(ANN, key="same", id="01900000-0000-7000-8000-000000000001")
    assert len(await rows(world)) == 2
    await world.one(ANN, key="same", id="01900000-0000-7000-8000-000000000002")
    assert len(await rows(world)) == 2, "a repeat makes nothing"


async def test_a_row_is_bounded(world: World) -> None:
    job = await world.one(ALICE)
    await world.store.cancel(ALICE, [job], "é" * 10_000)
    (row,) = await rows(world)
    assert row.data == {"reason": "é" * LONGEST_TEXT}


async def test_pages_and_filters(world: World) -> None:
    for number in range(4):
        world.clock.advance(1)
        await world.store.pause_queue(ANN, f"q{number}", "")
        await world.store.resume_queue(LOCAL, f"q{number}")
    everything = await rows(world)
    assert [row.deed for row in everything] == ["resume_queue", "pause_queue"] * 4
    walked: list[AuditEntry] = []
    while page := await rows(world, limit=3, after=walked[-1].place if walked else None):
        walked += page
    assert walked == everything
    assert [row.subjects for row in await rows(world, user="ann", limit=1)] == [("q3",)]
    assert len(await rows(world, deed="resume_queue")) == 4
    assert len(await rows(world, since=everything[3].at, until=everything[0].at)) == 2


async def test_who_is_no_auditor_sees_own_deeds(world: World) -> None:
    for who in (ANN, ALICE):
        await world.store.set_limit(who, Limit("db", 1))
    assert [row.user for row in await rows(world, ALICE)] == ["alice"]
    assert await rows(world, ALICE, user="ann") == []
    assert {row.user for row in await rows(world, Principal("eve", auditor=True))} == {"ann", "alice"}
    assert len(await rows(world, LOCAL)) == 2


async def test_old_rows_are_forgotten(world: World) -> None:
    await world.store.set_limit(ANN, Limit("db", 1))
    world.clock.advance(2 * DAY / SECOND)
    await world.store.set_limit(ANN, Limit("db", 2))
    keep = Retention(DAY, DAY, DAY, DAY, audit=DAY)
    while await world.store.prune(SYSTEM, keep, 100):
        pass
    assert [row.data["concurrency"] for row in await rows(world)] == [2]


async def test_times_are_kept_as_people_read_them(world: World) -> None:
    at = 1_900_000_000 * SECOND
    await world.store.close_gate(ANN, msgspec.structs.replace(GATE, until=at))
    await world.store.put_user(ANN, "bea", quotas({}), True)
    await world.store.add_key(ANN, msgspec.structs.replace(KEY, expires_at=at))
    await world.store.rotate_key(ANN, KEY.id, "cd", "other", HOUR, at + SECOND)
    await world.store.set_step(ANN, "q", STRICT)
    strict, rotated, added, _, closed = [row.data for row in await rows(world)]
    assert closed["until"] == added["expires_at"] == "2030-03-17T17:46:40.000000+00:00"
    assert (rotated["overlap"], rotated["expires_at"]) == ("1h", "2030-03-17T17:46:41.000000+00:00")
    assert strict == {"step": "strict"}

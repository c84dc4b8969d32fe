"""A store with a hot tier in front of it: what is added, who is told, and how it lives with loops. (Forks, threads and
many loops: `tests/test_forking.py`. All contracts: the backends `hot-sqlite` and `hot-postgres`.)"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rota.clock import Chance, SystemClock
from rota.errors import InvalidInput, SchemaMissing
from rota.hot.local import LocalLane, LocalServer
from rota.hot.member import LONGEST_REST, STEADY
from rota.hot.refiller import Refiller
from rota.hot.store import HotStore
from rota.model.job import NewJob
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import DAY, HOUR, MINUTE, SECOND
from rota.store.sqlite import SqliteStore
from rota.store.values import Topic
from tests.contracts.world import command
from tests.hot.virtual import Tier, tier, virtual


# -- what is added ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("changes", "added"),
    [
        ({"delay": 1}, True),
        ({"delay": SECOND}, True),
        ({"delay": HOUR}, True),
        ({"delay": HOUR + 1}, False),
        ({"delay": 30 * DAY}, False),
        ({}, False),
        ({"expires": MINUTE}, False),
        ({"delay": SECOND, "expires": MINUTE}, True),
        ({"delay": SECOND, "key": "k"}, True),
    ],
)
@virtual
async def test_what_is_due_within_the_hour_is_added_after_the_commit(changes: dict[str, Any], added: bool) -> None:
    async with tier() as case:
        job = await case.world.one(**changes)
        assert case.entries() == {}, "nobody waits for it"
        await case.settle()
        assert case.entries() == ({job: case.clock.now() + changes["delay"] - 1} if added else {})


@pytest.mark.parametrize(("after", "added"), [(-HOUR, False), (0, False), (MINUTE, True), (2 * HOUR, False)])
@virtual
async def test_an_instant_is_added_as_a_delay_is(after: int, added: bool) -> None:
    async with tier() as case:
        at = case.clock.now() + after
        job = await case.world.one(at=at)
        await case.settle()
        assert case.entries() == ({job: at} if added else {})


@virtual
async def test_what_waits_for_others_and_what_was_there_before_is_not_added() -> None:
    async with tier() as case:
        parent = await case.world.one()
        await case.world.submit(case.world.child(parent, delay=MINUTE))
        first = await case.world.one(delay=MINUTE, key="k")
        await case.settle()
        case.lose(first)
        assert await case.world.one(delay=MINUTE, key="k") == first
        await case.settle()
        assert case.entries() == {}


@virtual
async def test_an_order_that_is_refused_is_not_added_and_the_others_are() -> None:
    async with tier() as case:
        bad = case.world.child("01900000-0000-7000-8000-000000000001", delay=MINUTE)
        good = case.world.job(delay=MINUTE)
        refused, answer = await case.store.submit(LOCAL, [[bad], [good]])
        assert not isinstance(refused, list)
        assert isinstance(answer, list)
        await case.settle()
        assert [*case.entries()] == [good.id]


@virtual
async def test_nothing_is_added_when_the_commit_fails() -> None:
    async with tier() as case:
        with pytest.raises(InvalidInput):
            await case.store.submit(LOCAL, [[case.world.job(delay=MINUTE, task="\ud800")]])
        await case.settle()
        assert case.entries() == {}


# -- wake-ups about due times -----------------------------------------------------------------------------------------
@virtual
async def test_the_commits_wake_up_is_left_out_only_if_the_heap_is_told() -> None:
    async with tier() as case:
        asked: list[bool] = []

        async def submit(*jobs: NewJob) -> bool:
            """Whether others must be told of due times."""
            case.noted.meanwhile["submit"] = carried
            await case.store.submit(LOCAL, [jobs])
            return asked.pop()

        async def carried() -> None:
            asked.append(not case.noted._carry({Topic.DUE}))

        assert not await submit(case.world.job(delay=MINUTE))
        parent = await case.world.one()
        assert await submit(case.world.child(parent, delay=MINUTE)), "it may go on at once"
        assert not await submit(case.world.job(delay=MINUTE))
        case.side.members[0].lose("no answer")
        assert await submit(case.world.job(delay=MINUTE))


@virtual
async def test_other_topics_go_as_always() -> None:
    async with tier() as case:
        assert not case.noted._carry({Topic.READY})
        assert not case.noted._carry({Topic.READY, Topic.DUE})


# -- a store that was not opened --------------------------------------------------------------------------------------
@virtual
async def test_a_store_that_was_never_opened_passes_calls_on() -> None:
    async with tier() as case:
        case.store._name = ""
        job = await case.world.one(delay=SECOND)
        await case.settle()
        assert case.entries() == {}
        await asyncio.sleep(1)
        assert (await case.store.promote(SYSTEM, 10))[0] == 1
        assert case.noted.asked[-1] == "promote"
        stop = case.store.listen(frozenset({Topic.READY}), lambda: None)
        stop()
        assert not case.noted._carry({Topic.READY})
        assert job


async def test_it_is_opened_after_the_migration(tmp_path: Path) -> None:
    store = on_file(tmp_path)
    with pytest.raises(SchemaMissing):
        await store.open()
    findings = await store.examine()
    assert [finding.ok for finding in findings if finding.name == "schema"] == [False]
    assert [finding for finding in findings if finding.name == "hot tier"] == []
    await store.migrate()
    await store.open()
    await store.close()


def on_file(folder: Path, server: LocalServer | None = None) -> HotStore:
    clock = SystemClock()
    server = server or LocalServer(clock)
    inner = SqliteStore(str(folder / "rota.db"), clock, Chance())
    return HotStore.around(inner, lambda: [LocalLane(server)], clock, Chance())


async def test_doctors_name_members_that_can_not_be_used(tmp_path: Path) -> None:
    server = LocalServer(SystemClock())
    store = on_file(tmp_path, server)
    await store.migrate()
    server.memory.owner = "another"
    (finding,) = [one for one in await store.examine() if one.name == "hot tier"]
    assert not finding.ok
    assert finding.text.startswith("local: it serves another store (another)")
    assert finding.text.endswith("; rota goes on without it")
    await store.close()
    server.memory.owner = ""
    second = on_file(tmp_path, server)
    (finding,) = [one for one in await second.examine() if one.name == "hot tier"]
    assert (finding.ok, finding.text) == (True, "local")
    await second.close()


async def test_two_processes_on_one_store_share_the_server_and_another_store_is_refused(tmp_path: Path) -> None:
    server = LocalServer(SystemClock())
    stores = [on_file(tmp_path, server) for _ in range(2)]
    (tmp_path / "other").mkdir()
    await stores[0].migrate()
    stores.append(on_file(tmp_path / "other", server))
    await stores[2].migrate()
    for store in stores:
        await store.open()
        await store.side().reached(5)
    assert [store.side().members[0].healthy for store in stores] == [True, True, False]
    for store in stores:
        await store.close()


# -- loops ------------------------------------------------------------------------------------------------------------
def order(delay: int = MINUTE) -> NewJob:
    return NewJob(Chance().job_id(SystemClock().now()), "true", command(), delay=delay)


async def submit(store: HotStore, job: NewJob) -> None:
    await store.submit(LOCAL, [[job]])
    while store.side()._adding is not None:  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def closed_by_hand(work: Callable[[], Any]) -> None:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(work())
    loop.close()


def test_loops_come_and_go(tmp_path: Path) -> None:
    server = LocalServer(SystemClock())
    store = on_file(tmp_path, server)
    jobs = [order() for _ in range(6)]

    async def begin() -> None:
        await store.migrate()
        await store.open()
        await submit(store, jobs[0])

    async def listen(job: NewJob) -> None:
        store.listen(frozenset({Topic.READY}), lambda: None)
        await submit(store, job)

    asyncio.run(begin())
    asyncio.run(listen(jobs[1]))
    closed_by_hand(lambda: listen(jobs[2]))
    closed_by_hand(lambda: submit(store, jobs[3]))
    threads = [threading.Thread(target=asyncio.run, args=[listen(job)]) for job in jobs[4:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.memory.times.keys() == {job.id for job in jobs}
    asyncio.run(store.close())


def test_it_is_let_go_from_any_thread(tmp_path: Path) -> None:
    server = LocalServer(SystemClock())
    store = on_file(tmp_path, server)

    async def main() -> list[bool]:
        await store.migrate()
        await store.open()
        side = store.side()
        await side.reached(5)
        before = side.members[0].healthy
        await asyncio.to_thread(store.let_go)
        async with asyncio.timeout(20):
            while side.members[0].healthy:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        return [before]

    assert asyncio.run(main()) == [True]


@virtual
async def test_it_brings_the_refiller() -> None:
    async with tier() as case:
        assert [type(service) for service in case.store.services(lambda: True)] == [Refiller]


# -- what people are told ---------------------------------------------------------------------------------------------
AWAY = "the hot tier at local-0 is away, and rota goes on without it: "
BACK = "the hot tier at local-0 is back"


async def ask(case: Tier) -> None:
    await case.heap.look(0, 0)


@virtual
async def test_people_are_told_once_that_it_is_away_and_once_that_it_is_back() -> None:
    async with tier() as case:
        said: list[str] = []
        case.store.tell_people(said.append)
        for _ in range(3):
            case.server.away = True
            for _ in range(20):
                await ask(case)
                await asyncio.sleep(1)
            assert said == [AWAY + "local: it is not open"] or said == [AWAY + "local: it is away"]
            case.server.away = False
            await asyncio.sleep(STEADY + 2)
            assert said[1:] == [BACK]
            said.clear()


@virtual
async def test_nothing_is_said_while_all_is_well() -> None:
    case = Tier(members=3)
    said: list[str] = []
    await case.open(filled=False)
    case.store.tell_people(said.append)
    await asyncio.sleep(60)
    assert said == []
    await case.store.close()
    assert said == []


@virtual
async def test_one_that_was_never_there_is_told_and_when_it_comes_too() -> None:
    case = Tier(members=3)
    said: list[str] = []
    case.server.away = True
    original = HotStore.around

    def around(*args: Any) -> HotStore:
        store = original(*args)
        store.tell_people(said.append)
        return store

    HotStore.around = around  # type: ignore[method-assign, assignment]
    try:
        await case.open(filled=False)
    finally:
        HotStore.around = original  # type: ignore[method-assign]
    await asyncio.sleep(20)
    assert said == [AWAY + "local: it is away"]
    case.server.away = False
    await asyncio.sleep(STEADY + 2)
    assert said[1:] == [BACK]
    await case.store.close()


@virtual
async def test_one_that_answers_and_refuses_is_away_and_not_back_again_and_again() -> None:
    """As a server whose memory is full."""
    async with tier() as case:
        said: list[str] = []
        case.store.tell_people(said.append)
        case.server.full = True
        for number in range(600):
            await case.world.one(delay=MINUTE + number)
            await asyncio.sleep(0.1)
        assert len(said) == 1
        assert "its memory is full" in said[0]
        case.server.full = False
        await asyncio.sleep(LONGEST_REST + STEADY + 2)
        assert said[1:] == [BACK]


@virtual
async def test_several_loops_say_it_once() -> None:
    """They have members of their own at the same place."""
    async with tier() as case:
        said: list[str] = []
        case.store.tell_people(said.append)
        (first,) = case.side.members
        second = case.store._make_side().members[0]
        async with asyncio.timeout(5):
            while not second.healthy:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        for member in (first, second, first, second):
            member.lose("no answer")
            await asyncio.sleep(1)
        await asyncio.sleep(2 * STEADY)
        assert said == [AWAY + "no answer", BACK]
        await second.close()

"""Admission where claims really happen at once: several nodes, callers with open transactions, and gates that close
meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import psycopg
import pytest

import rota
from rota.clock import ManualClock
from rota.errors import StoreError
from rota.model.job import Claimed, Spec
from rota.model.lifecycle import State
from rota.model.limits import Key, Policy, Rate
from rota.model.node import NewNode
from rota.model.principal import LOCAL, SYSTEM
from rota.model.task import TaskInfo
from rota.model.times import MINUTE, SECOND
from rota.store.postgres import PostgresStore
from rota.store.postgres import work as working
from rota.store.values import Topic
from tests.contracts.admission import close, finish_all, holders, lone, mutex, names, needs, rated
from tests.contracts.world import BOTH, DONE, Actor, World, settled
from tests.servers.postgres import fresh_schema_name, shared_server
from tests.store.postgres.ranking import LIMIT, Place

CLAIMERS = 8


@pytest.fixture
async def stores(place: Place, store: PostgresStore, clock: ManualClock) -> list[PostgresStore]:
    """Of four processes, so to speak."""
    return [store, *[await place.store(clock=clock) for _ in range(3)]]


@pytest.fixture
async def runtime(world: World, stores: list[PostgresStore]) -> list[Actor]:
    return [await world.node(store=stores[number % len(stores)]) for number in range(CLAIMERS)]


async def together(deeds: list[Coroutine[Any, Any, None]]) -> None:
    async with asyncio.timeout(3 * LIMIT):
        await asyncio.gather(*deeds)


class Witness:
    """Who holds what, by those who were told so: counted after the claim was answered and until before its end."""

    def __init__(self, bounds: dict[str, int], wanted: dict[str, tuple[str, ...]]) -> None:
        self.bounds, self.wanted = bounds, wanted
        self.now: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()

    def began(self, claimed: list[Claimed]) -> None:
        for one in claimed:
            self.now.update(self.wanted[one.job_id])
        assert all(self.now[key] <= bound for key, bound in self.bounds.items()), self.now

    def ends(self, claimed: list[Claimed]) -> None:
        for one in claimed:
            self.now.subtract(self.wanted[one.job_id])
            self.ended[one.job_id] += 1

    @property
    def over(self) -> bool:
        return len(self.ended) == len(self.wanted)


async def work(actor: Actor, witness: Witness, most: int) -> None:
    while not witness.over:
        claimed = await actor.claim(most)
        witness.began(claimed)
        if not claimed:
            await actor.store.admit(SYSTEM, 100)
            continue
        await actor.renew()  # they run for a while
        witness.ends(claimed)
        await finish_all(actor, claimed)


@pytest.mark.slow
async def test_eight_claimers_never_share_a_key(world: World, runtime: list[Actor]) -> None:
    bounds = {"a": 1, "b": 1, "c": 2, "d": 5}
    wanted: dict[str, tuple[str, ...]] = {}
    for number in range(160):
        keys = tuple(key for place, key in enumerate("abcd") if number % 15 + 1 & 1 << place)
        wanted[await world.one(requirements=needs(*(Key(key, bounds[key]) for key in keys)))] = keys
    witness = Witness(bounds, wanted)
    await together([work(actor, witness, number % 4 + 1) for number, actor in enumerate(runtime)])
    assert set(witness.ended.values()) == {1}
    assert [await holders(world, key) for key in bounds] == [[]] * 4


async def test_eight_claimers_never_start_more_than_a_rate_allows(
    world: World, runtime: list[Actor], clock: ManualClock
) -> None:
    jobs = await world.several(40, requirements=rated(5, MINUTE))
    started: list[str] = []
    for turn in range(8):
        found = await asyncio.gather(*(actor.claim(3) for actor in runtime))
        await asyncio.gather(*(actor.store.admit(SYSTEM, 100) for actor in runtime))
        found += await asyncio.gather(*(actor.claim(3) for actor in runtime))
        started += [job for claimed in found for job in names(claimed)]
        assert len(started) <= 5 * (turn + 1)
        clock.advance(61)
        await world.store.admit(SYSTEM, 100)
    assert sorted(started) == sorted(jobs)


async def test_with_both_bounds_and_several_policies_none_is_lost_or_run_twice(
    world: World, runtime: list[Actor], clock: ManualClock
) -> None:
    for policy in (Policy.SKIP, Policy.REPLACE):
        await world.several(10, requirements=mutex(str(policy), policy=policy))
    await world.several(20, requirements=needs(Key("both", 2, Rate(1_000, MINUTE))))
    runs: Counter[str] = Counter()

    async def one(actor: Actor) -> None:
        for _ in range(25):
            claimed = await actor.claim(2)
            runs.update(names(claimed))
            await finish_all(actor, claimed)
            await actor.store.admit(SYSTEM, 100)

    await together([one(actor) for actor in runtime])
    assert set(runs.values()) == {1}
    assert {info.ended for info in (await world.all()).values()} == {True}
    assert await world.store.limits(LOCAL, ["both", "skip", "replace"]) != []


async def test_what_begins_after_a_gate_was_closed_starts_nothing(world: World, runtime: list[Actor]) -> None:
    for turn in range(5):
        await world.several(60, task=f"t{turn}")
        closed = False
        late: list[Claimed] = []

        async def claims(actor: Actor) -> None:
            for _ in range(6):
                knew = closed  # noqa: B023 - awaited within the turn
                claimed = await actor.claim(2)
                if knew:
                    late.extend(claimed)  # noqa: B023
                await finish_all(actor, claimed)

        async def shut() -> None:
            nonlocal closed
            await runtime[0].claim(1)
            await close(world, task=f"t{turn}")  # noqa: B023
            closed = True

        await together([shut(), *(claims(actor) for actor in runtime)])
        assert late == []


async def test_beside_one_that_is_alone_nothing_runs(world: World, runtime: list[Actor], clock: ManualClock) -> None:
    running: set[str] = set()
    lonely = {await world.one(task="lone", requirements=lone("all", drain=10 * MINUTE)) for _ in range(3)}
    await world.several(60)
    ended: set[str] = set()

    async def one(actor: Actor) -> None:
        while len(ended) < 63:
            claimed = await actor.claim(2)
            running.update(names(claimed))
            assert not (running & lonely) or len(running) == 1
            await actor.renew()
            running.difference_update(names(claimed))
            await finish_all(actor, claimed)
            ended.update(names(claimed))
            clock.advance(0.1)
            await actor.store.admit(SYSTEM, 100)

    await together([one(actor) for actor in runtime])
    assert lonely <= ended


# -- callers ----------------------------------------------------------------------------------------------------------


@pytest.fixture
async def app() -> AsyncIterator[rota.App]:
    schema = fresh_schema_name()
    app = rota.App(f"{shared_server().url()}?schema={schema}")
    async with app:
        yield app
    shared_server().execute(f"DROP SCHEMA {schema} CASCADE")


async def test_a_caller_s_open_transaction_keeps_nobody_waiting(app: rota.App) -> None:
    """It has ordered a job with a key, and thinks."""
    store = (await app._core.client()).store
    await store.register(SYSTEM, NewNode("n", "n", ("worker",), {"default": 5}, "1", 10 * SECOND), [])
    first = await app.submit_command(["true"], exclusive="m")

    async def claim() -> list[Claimed]:
        return await store.claim(SYSTEM, "n", {"default": 5}, BOTH, {"default": 5})

    async def done(claimed: Claimed) -> None:
        await store.finish(SYSTEM, [settled(claimed, DONE)])

    async with asyncio.timeout(LIMIT):
        with psycopg.connect(shared_server().url()) as connection:
            inside = app.submit_command_sync(["true"], within=connection, exclusive="m", labels=["x"])
            (claimed,) = await claim()
            assert claimed.job_id == first.id
            second = await app.submit_command(["true"], exclusive="m")
            await store.admit(SYSTEM, 100)
            await done(claimed)
            (claimed,) = await claim()
            assert claimed.job_id == second.id
        await store.admit(SYSTEM, 100)
        assert await claim() == []
        await done(claimed)
        (claimed,) = await claim()
        assert claimed.job_id == inside.id


# -- when something goes wrong half-way -------------------------------------------------------------------------------
async def test_what_was_taken_is_told_although_the_rest_can_t_be_looked_at(
    world: World, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    actor = await world.node()
    plain = await world.one()
    (keyed,) = await world.submit(world.job(requirements=mutex("k")))
    monkeypatch.setitem(store._database.queries, "admit_claim", ("SELECT 1 / 0", ()))
    assert [one.job_id for one in await actor.claim(2)] == [plain]
    assert await world.state(keyed) is State.READY
    with pytest.raises(StoreError):
        await actor.claim(2)  # nothing was taken: then it is an error like any other


async def test_a_look_at_gates_alone_starts_nothing(world: World, store: PostgresStore) -> None:
    """They may have been opened since somebody saw jobs behind them."""
    actor = await world.node()
    job = await world.one()
    (keyed,) = await world.submit(world.job(requirements=mutex("k")))
    async with store._database.unit(store._database.pools().work) as unit:
        ids, incarnation = [job, keyed], actor.incarnation
        assert not await unit.rows(
            "admit_claim", ids=ids, incarnation=incarnation, now=unit.now, only_gates=True, step=0
        )
    assert await world.states(job, keyed) == [State.READY, State.READY]


async def test_what_a_gate_held_that_is_gone_goes_on(world: World, place: Place) -> None:
    """A claim that began before the gate was opened may be committed after the gate was taken away."""
    actor = await world.node()
    job, other = await world.several(2)
    with place.connect() as db:
        db.execute("UPDATE jobs SET state = 'held', held_by = 'g:' || gen_random_uuid() WHERE id = %s", (job,))
    woken = asyncio.Event()
    stop = world.store.listen(frozenset({Topic.GATE}), woken.set)
    await actor.renew()
    assert woken.is_set()
    stop()
    assert (await world.store.admit(SYSTEM, 100)).moved == 1
    assert {one.job_id for one in await actor.claim(2)} == {job, other}


# -- looks ------------------------------------------------------------------------------------------------------------
@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One for each look of a claim."""
    seen: list[int] = []
    look = working._look

    async def counted(*args: Any) -> tuple[list[Claimed], list[str], list[str]]:
        seen.append(1)
        return await look(*args)

    monkeypatch.setattr(working, "_look", counted)
    return seen


@pytest.fixture
async def rung(store: PostgresStore) -> AsyncIterator[asyncio.Event]:
    """Someone is told that there is work."""
    event = asyncio.Event()
    stop = store.listen(frozenset({Topic.READY}), event.set)
    yield event
    stop()


async def test_what_must_start_soon_does_not_wait_for_another_look(world: World, looks: list[int]) -> None:
    """Far from the server each look may take as long as a rate allows for a start."""
    actor = await world.node()
    (job,) = await world.submit(world.job(requirements=rated(1, SECOND)))
    assert names(await actor.claim(10)) == [job]
    assert looks == [1]


async def test_nor_for_those_behind_what_was_moved_aside(world: World, looks: list[int], rung: asyncio.Event) -> None:
    actor = await world.node()
    await actor.take(await world.one(requirements=mutex("m")))
    jobs = [await world.one(requirements=requirements) for requirements in (mutex("m"), rated(1, SECOND))]
    plain = await world.one()
    await world.store.admit(SYSTEM, 100)
    looks.clear()
    rung.clear()
    claimed = await actor.claim(2)
    if names(claimed) == jobs[1:]:
        assert looks == [1]
        await asyncio.wait_for(rung.wait(), LIMIT)
        claimed = await actor.claim(1)
    assert plain in names(claimed)


@pytest.mark.parametrize("most", [1, 10])
async def test_a_slot_is_not_left_idle_behind_many_that_wait_for_a_key(
    world: World, looks: list[int], rung: asyncio.Event, clock: ManualClock, most: int
) -> None:
    """They were not in line: their time has just come."""
    actor = await world.node()
    await actor.take(await world.one(requirements=mutex("m")))
    await world.several(3_000, requirements=mutex("m"), delay=SECOND)
    clock.advance(2)
    await world.promote()
    plain = await world.one()
    assert names(await actor.claim(most)) == [plain]
    assert len(looks) < working.MOST_LOOKS


async def test_one_that_did_not_come_to_the_end_has_somebody_look_again(
    world: World, monkeypatch: pytest.MonkeyPatch, rung: asyncio.Event, clock: ManualClock
) -> None:
    monkeypatch.setattr(working, "MOST_LOOKS", 1)
    actor = await world.node()
    await actor.take(await world.one(requirements=mutex("m")))
    await world.several(5, requirements=mutex("m"), delay=SECOND)
    clock.advance(2)
    await world.promote()
    plain = await world.one()
    found: list[str] = []
    while not found:
        await asyncio.sleep(0)
        rung.clear()
        found = names(await actor.claim(1))
        if not found:
            await asyncio.wait_for(rung.wait(), LIMIT)
    assert found == [plain]


# -- orders by SQL ----------------------------------------------------------------------------------------------------
async def test_an_order_by_sql_is_in_the_flow_of_its_task(world: World, place: Place) -> None:
    actor = await world.node(tasks=[TaskInfo("t", ("n",), flow="bulk:{n}"), TaskInfo("u")])
    with place.connect() as db:
        db.execute("""SELECT submit('t', '{"n": 7}'), submit('u')""")
    assert {one.task: one.flow for one in await actor.claim()} == {"t": "bulk:7", "u": "u"}


async def test_an_order_by_sql_has_the_secrets_of_its_task(world: World, place: Place) -> None:
    actor = await world.node(tasks=[TaskInfo("t", ("n",), secrets=("key", "n"))])
    with place.connect() as db:
        db.execute("""SELECT submit('t', '{"n": "hunter2"}')""")
    (claimed,) = await actor.claim()
    assert claimed.spec == Spec.function("t").with_secrets(("key", "n")).body
    assert (await world.info(claimed.job_id)).args == {"n": "***"}


async def test_a_key_that_an_order_by_sql_names_twice_is_one(world: World, place: Place) -> None:
    """The stricter bound holds, as for orders from Python."""
    info = TaskInfo(
        "t", ("a", "b"), ("a", "b"), exclusive="u:{a}",
        limits=(Key("u:{b}", 3, Rate(60, MINUTE)), Key("u:{a}", 2, Rate(10, MINUTE))),
    )  # fmt: skip
    actor = await world.node(tasks=[info])
    with place.connect() as db:
        first, second = (
            db.execute("SELECT submit('t', %s)", [f'{{"a": 1, "b": {b}}}']).fetchall()[0][0] for b in (1, 2)
        )
    keys = (await world.info(str(first))).keys
    assert [(key.name, key.concurrency, key.rate) for key in keys] == [("u:1", 1, Rate(10, MINUTE))]
    assert [key.name for key in (await world.info(str(second))).keys] == ["u:1", "u:2"]
    await world.store.admit(SYSTEM, 100)
    claimed = await actor.take(str(first))
    await actor.finish(claimed)
    await world.store.admit(SYSTEM, 100)
    await actor.take(str(second))

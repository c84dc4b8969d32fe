"""Orders: accepted whole or refused whole, each on its own, and due by the store's clock."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from rota.errors import KeyConflict, RotaError
from rota.model.job import JobInfo, Kind, Spec, Submitted
from rota.model.lifecycle import State
from rota.model.principal import LOCAL
from rota.model.retry import Retry
from rota.model.times import DAY, HOUR, LATEST, MINUTE, SECOND, aware, instant
from rota.store.base import Store
from rota.store.values import JobFilter
from tests.contracts.world import ALICE, PLENTY, World, command


async def test_a_job_comes_out_as_it_went_in(world: World) -> None:
    job = world.job(
        task="mail.send",
        spec=Spec.function("mail.send"),
        args='{"to": "ann", "n": 3, "text": "naïve ☃"}',
        queue="mail",
        priority=2,
        delay=90 * SECOND,
        retry=Retry(5, "1s..1m", 0.2, {"KeyError": "fatal"}),
        timeout=30 * SECOND,
        expires=HOUR,
        key="k1",
    )
    await world.submit(job, who=ALICE)
    now = world.clock.now()
    assert await world.info(job.id) == JobInfo(
        id=job.id,
        owner="alice",
        task="mail.send",
        kind=Kind.FUNCTION,
        spec={"name": "mail.send"},
        args={"to": "ann", "n": 3, "text": "naïve ☃"},
        queue="mail",
        priority=2,
        state=State.SCHEDULED,
        run_at=aware(now + 90 * SECOND),
        created_at=aware(now),
        expires_at=aware(now + 90 * SECOND + HOUR),
        timeout=timedelta(seconds=30),
        retry=Retry(5, "1s..1m", 0.2, {"KeyError": "fatal"}),
        key="k1",
    )


async def test_a_command_comes_out_as_it_went_in(world: World) -> None:
    spec = Spec.command(["sh", "-c", "exit 3"], cwd="/tmp", env={"A": "1"}, fatal_exit_codes=[3])
    info = await world.info(await world.one(task="sh", spec=spec))
    assert info.kind is Kind.COMMAND
    assert info.spec == {"argv": ["sh", "-c", "exit 3"], "cwd": "/tmp", "env": {"A": "1"}, "fatal_exit_codes": [3]}
    assert (info.timeout, info.expires_at, info.key) == (None, None, None)


async def test_the_answer_names_the_jobs_in_their_order(world: World) -> None:
    first = [world.job() for _ in range(3)]
    second = [world.job()]
    answers = await world.store.submit(LOCAL, [first, second])
    assert answers == [[Submitted(job.id, True) for job in first], [Submitted(second[0].id, True)]]
    assert set(await world.all()) == {job.id for job in first + second}


async def test_nothing_is_accepted_of_nothing(world: World) -> None:
    async with world.unchanged():
        assert await world.store.submit(LOCAL, []) == []
        assert await world.store.submit(LOCAL, [[], []]) == [[], []]


async def test_a_large_order_is_one_order(world: World) -> None:
    jobs = [world.job(args=f'{{"n": {n}}}') for n in range(1_000)]
    assert await world.submit(*jobs) == [job.id for job in jobs]
    found = await world.store.find(LOCAL, JobFilter(limit=PLENTY))
    assert [info.args["n"] for info in reversed(found)] == list(range(1_000))


async def test_an_id_that_exists_is_refused_and_nothing_is_written(world: World) -> None:
    """Ids are unique by their making. Should one come twice all the same, rota says so in its own words."""
    known = await world.one()
    async with world.unchanged():
        with pytest.raises(RotaError):
            await world.store.submit(LOCAL, [[world.job()], [world.job(id=known)]])


# -- when it is due ---------------------------------------------------------------------------------------------------


async def test_without_a_time_it_is_ready_at_once(world: World) -> None:
    info = await world.info(await world.one())
    assert (info.state, instant(info.run_at)) == (State.READY, world.clock.now())


@pytest.mark.parametrize("ago", [1, SECOND, 365 * DAY])
async def test_a_time_in_the_past_means_now(world: World, ago: int) -> None:
    info = await world.info(await world.one(at=world.clock.now() - ago))
    assert (info.state, instant(info.run_at)) == (State.READY, world.clock.now())


async def test_the_present_is_not_the_future(world: World) -> None:
    info = await world.info(await world.one(at=world.clock.now()))
    assert (info.state, instant(info.run_at)) == (State.READY, world.clock.now())


async def test_a_microsecond_ahead_is_the_future(world: World) -> None:
    info = await world.info(await world.one(at=world.clock.now() + 1))
    assert (info.state, instant(info.run_at)) == (State.SCHEDULED, world.clock.now() + 1)


async def test_a_delay_counts_from_the_clock_of_the_store(world: World) -> None:
    job = world.job(delay=MINUTE)
    world.clock.advance(1_000)  # between the making of the order and its arrival
    await world.submit(job)
    info = await world.info(job.id)
    assert (info.state, instant(info.run_at)) == (State.SCHEDULED, world.clock.now() + MINUTE)
    assert instant(info.created_at) == world.clock.now()


async def test_a_time_beyond_the_calendar_means_its_end(world: World) -> None:
    assert (await world.info(await world.one(at=LATEST + DAY))).run_at == aware(LATEST)


async def test_expiry_counts_from_the_moment_it_is_due(world: World) -> None:
    now = world.clock.now()
    at_once = await world.info(await world.one(expires=MINUTE))
    delayed = await world.info(await world.one(expires=MINUTE, delay=HOUR))
    overdue = await world.info(await world.one(expires=MINUTE, at=now - DAY))
    assert at_once.expires_at == aware(now + MINUTE)
    assert delayed.expires_at == aware(now + HOUR + MINUTE)
    assert overdue.expires_at == aware(now + MINUTE), "a time in the past means now, for the expiry too"


# -- keys -------------------------------------------------------------------------------------------------------------


async def test_the_same_order_again_is_answered_with_the_same_job(world: World) -> None:
    (first,) = await world.submit(world.job(key="k"))
    world.clock.advance(60)
    async with world.unchanged():
        assert await world.store.submit(LOCAL, [[world.job(key="k")]]) == [[Submitted(first, False)]]


async def test_the_same_key_for_another_order_is_a_conflict(world: World) -> None:
    (first,) = await world.submit(world.job(key="k"))
    async with world.unchanged():
        (answer,) = await world.store.submit(LOCAL, [[world.job(key="k", args='{"other": 1}')]])
    assert isinstance(answer, KeyConflict)
    assert (answer.key, answer.job_id) == ("k", first)


@pytest.mark.parametrize(
    "change",
    [
        {"task": "false"},
        {"spec": command("false")},
        {"spec": Spec.function("true")},
        {"args": '{"n": 2}'},
        {"queue": "mail"},
        {"priority": 4},
        {"delay": SECOND},
        {"at": 1},
        {"retry": Retry(1)},
        {"timeout": SECOND},
        {"expires": SECOND},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_every_part_of_an_order_counts(world: World, change: dict[str, object]) -> None:
    await world.submit(world.job(key="k"))
    async with world.unchanged():
        (answer,) = await world.store.submit(LOCAL, [[world.job(key="k", **change)]])
    assert isinstance(answer, KeyConflict)


async def test_a_refused_order_leaves_nothing_and_the_others_are_accepted(world: World) -> None:
    (known,) = await world.submit(world.job(key="taken"))
    good, bad, also_good = [world.job()], [world.job(), world.job(key="fresh"), world.job(key="taken", priority=1)], [
        world.job(),
        world.job(key="taken"),
    ]  # fmt: skip
    answers = await world.store.submit(LOCAL, [good, bad, also_good])
    assert answers[0] == [Submitted(good[0].id, True)]
    assert isinstance(answers[1], KeyConflict)
    assert (answers[1].key, answers[1].job_id) == ("taken", known)
    assert answers[2] == [Submitted(also_good[0].id, True), Submitted(known, False)]
    assert set(await world.all()) == {known, good[0].id, also_good[0].id}


async def test_a_refused_order_uses_up_no_keys(world: World) -> None:
    await world.submit(world.job(key="taken"))
    refused = [world.job(key="fresh"), world.job(key="taken", priority=1)]
    later = [world.job(key="fresh", args='{"other": "content"}')]
    answers = await world.store.submit(LOCAL, [refused, later])
    assert isinstance(answers[0], KeyConflict)
    assert answers[1] == [Submitted(later[0].id, True)]


async def test_a_key_twice_in_one_order_makes_one_job(world: World) -> None:
    first, again = world.job(key="k"), world.job(key="k")
    (answer,) = await world.store.submit(LOCAL, [[first, again]])
    assert answer == [Submitted(first.id, True), Submitted(first.id, False)]
    assert set(await world.all()) == {first.id}


async def test_a_key_twice_in_one_order_for_different_things_refuses_it(world: World) -> None:
    async with world.unchanged():
        (answer,) = await world.store.submit(LOCAL, [[world.job(key="k"), world.job(key="k", priority=1)]])
    assert isinstance(answer, KeyConflict)


async def test_a_key_in_two_orders_of_one_call_makes_one_job(world: World) -> None:
    first, again, other = world.job(key="k"), world.job(key="k"), world.job(key="k", priority=1)
    answers = await world.store.submit(LOCAL, [[first], [again], [other]])
    assert answers[:2] == [[Submitted(first.id, True)], [Submitted(first.id, False)]]
    assert isinstance(answers[2], KeyConflict)
    assert set(await world.all()) == {first.id}


async def test_the_keys_of_one_user_mean_nothing_to_another(world: World) -> None:
    (mine,) = await world.submit(world.job(key="k"))
    (hers,) = await world.submit(world.job(key="k", priority=1), who=ALICE)
    assert mine != hers
    assert await world.store.submit(ALICE, [[world.job(key="k", priority=1)]]) == [[Submitted(hers, False)]]


@pytest.mark.parametrize("key", ["", "k" * 4_000, "naïve ☃ 𝄞", "a'; --", '{"json": [1]}'])
async def test_a_key_may_be_any_text(world: World, key: str) -> None:
    (first,) = await world.submit(world.job(key=key))
    assert await world.store.submit(LOCAL, [[world.job(key=key)]]) == [[Submitted(first, False)]]
    assert (await world.info(first)).key == key


async def test_retries_through_two_stores_at_once_make_one_job(world: World, another: Store) -> None:
    stores = [world.store, another] * 10
    answers = await asyncio.gather(*(store.submit(LOCAL, [[world.job(key="k")]]) for store in stores))
    given = [submitted for (answer,) in answers if isinstance(answer, list) for submitted in answer]
    assert len(given) == len(stores)
    assert len({submitted.id for submitted in given}) == 1
    assert [submitted.created for submitted in given].count(True) == 1
    assert len(await world.all()) == 1


async def test_a_key_outlives_the_job_it_made(world: World) -> None:
    job_id = await world.one(key="k")
    await world.store.cancel(LOCAL, [job_id], "changed my mind")
    assert await world.store.purge(LOCAL, [job_id]) == [True]
    assert await world.store.get(LOCAL, job_id) is None
    assert await world.store.submit(LOCAL, [[world.job(key="k")]]) == [[Submitted(job_id, False)]]
    (answer,) = await world.store.submit(LOCAL, [[world.job(key="k", priority=1)]])
    assert isinstance(answer, KeyConflict)
    assert await world.all() == {}

"""Reads: finding jobs by what is known of them, and counting them."""

from __future__ import annotations

import pytest

from rota.model.lifecycle import State
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import HOUR, SECOND
from rota.store.base import Store
from rota.store.values import JobFilter
from rota.store.verbs import verbs
from tests.contracts.shelves import STATES, one_of_each, stand
from tests.contracts.world import ALICE, BOOM, DONE, FATAL, PLENTY, World


async def found(world: World, **conditions: object) -> list[str]:
    return [info.id for info in await world.store.find(LOCAL, JobFilter(**conditions))]  # type: ignore[arg-type]


async def test_an_unknown_job_is_none(world: World) -> None:
    await world.one()
    assert await world.store.get(LOCAL, "no-such-job") is None
    assert await world.store.get(LOCAL, "") is None


async def test_get_and_find_show_the_same(world: World) -> None:
    actor = await world.node()
    jobs = (await one_of_each(world, actor)).values()
    infos = {info.id: info for info in await world.store.find(LOCAL, JobFilter())}
    assert infos == {job: await world.store.get(LOCAL, job) for job in jobs}


async def test_the_newest_comes_first(world: World) -> None:
    jobs = [await world.one(priority=n % 10, delay=(20 - n) * SECOND) for n in range(20)]
    assert await found(world) == jobs[::-1]


async def test_no_more_than_the_limit(world: World) -> None:
    jobs = await world.several(120)
    assert await found(world, limit=3) == jobs[:-4:-1]
    assert len(await found(world)) == 100
    assert len(await found(world, limit=PLENTY)) == 120


async def test_by_ids(world: World) -> None:
    jobs = await world.several(5)
    assert await found(world, ids=(jobs[1], "no-such-job", jobs[3], jobs[1])) == [jobs[3], jobs[1]]
    assert await found(world, ids=()) == []


async def test_by_state(world: World) -> None:
    actor = await world.node()
    jobs = await one_of_each(world, actor)
    for state in State:
        assert await found(world, states=(state,)) == [jobs[state]]
    live = (State.READY, State.RUNNING)
    assert await found(world, states=live) == [jobs[State.READY], jobs[State.RUNNING]]
    assert await found(world, states=()) == []


async def test_by_queue(world: World) -> None:
    await world.one()
    mail = await world.several(2, queue="mail")
    assert await found(world, queue="mail") == mail[::-1]
    assert await found(world, queue="mai") == []


async def test_by_task_as_a_glob(world: World) -> None:
    send, fetch, other = [await world.one(task=name) for name in ("mail.send", "mail.fetch", "e-mail")]
    assert await found(world, task="mail.send") == [send]
    assert await found(world, task="mail.*") == [fetch, send]
    assert await found(world, task="*mail*") == [other, fetch, send]
    assert await found(world, task="mail.?end") == [send]
    assert await found(world, task="mail.[a-f]*") == [fetch]
    assert await found(world, task="mail") == []
    assert await found(world, task="MAIL.*") == []
    assert await found(world, task="mail%") == []


async def test_by_a_part_of_the_error(world: World) -> None:
    actor = await world.node()
    hopeless, retried, fine = await world.several(3)
    for job, result in ((hopeless, FATAL), (retried, BOOM), (fine, DONE)):
        await actor.run(result, job)
    assert await found(world, error="hope") == [hopeless]
    assert await found(world, error="oo") == [retried]
    assert await found(world, error="%") == []


async def test_by_the_time_of_the_end(world: World) -> None:
    actor = await world.node()
    early, late, _ = await world.several(3)
    await actor.run(DONE, early)
    end = world.clock.now()
    world.clock.advance(1)
    await actor.run(DONE, late)
    assert await found(world, ended_before=end) == []
    assert await found(world, ended_before=end + 1) == [early]
    assert await found(world, ended_before=world.clock.now() + HOUR) == [late, early]


async def test_all_conditions_must_hold(world: World) -> None:
    actor = await world.node()
    jobs = await world.submit(
        *(world.job(task=task, queue=queue) for task in ("a", "b") for queue in ("default", "mail")),
    )
    await actor.run(FATAL, jobs[0])
    assert await found(world, task="a", queue="default", states=(State.FAILED,), error="hope") == [jobs[0]]
    assert await found(world, task="b", states=(State.FAILED,)) == []
    assert await found(world, task="b", queue="mail", ids=tuple(jobs)) == [jobs[3]]
    assert await found(world, task="a", queue="mail", ids=(jobs[0],)) == []


async def test_dead_letters_come_in_the_order_of_their_deaths(world: World) -> None:
    actor = await world.node()
    first, second = await world.several(2)
    one, two = await actor.claim()
    await actor.finish(two, FATAL)
    world.clock.advance(1)
    await actor.finish(one, FATAL)
    assert await found(world, states=(State.FAILED,)) == [first, second]
    assert await found(world, states=(State.FAILED,), limit=1) == [first]


# -- resolve ----------------------------------------------------------------------------------------------------------


async def test_a_beginning_finds_its_ids(world: World) -> None:
    jobs = [
        "01930000-aaaa-7000-8000-000000000001",
        "01930000-aaab-7000-8000-000000000002",
        "01930000-bbbb-7000-8000-000000000003",
        "01930001-aaaa-7000-8000-000000000004",
        "01930001-aaaa-7000-8000-000000000005",
    ]
    await world.submit(*(world.job(id=job) for job in jobs))
    resolve = world.store.resolve
    assert await resolve(LOCAL, "01930000-b") == [jobs[2]]
    assert await resolve(LOCAL, "01930000-aaa") == jobs[:2]
    assert await resolve(LOCAL, jobs[4]) == [jobs[4]]
    assert await resolve(LOCAL, "0193") == jobs[:3], "three are enough to tell one from several"
    assert await resolve(LOCAL, "") == jobs[:3]
    assert await resolve(LOCAL, "01930002") == []
    assert await resolve(LOCAL, jobs[4] + "0") == []


async def test_an_end_finds_its_ids_if_no_beginning_does(world: World) -> None:
    """Ids begin with the time: those of one hour differ at their ends."""
    jobs = [
        "01930000-aaaa-7000-8000-0000000abc01",
        "01930000-aaab-7000-8000-0000000abc02",
        "01930000-aaac-7000-8000-000000abc019",
        "abc01000-aaad-7000-8000-000000000000",
    ]
    await world.submit(*(world.job(id=job) for job in jobs[:3]))
    hers = await world.one(ALICE, id="01930000-aaae-7000-8000-00000ffabc01")
    resolve = world.store.resolve
    assert await resolve(LOCAL, "abc01") == [jobs[0]]
    assert await resolve(LOCAL, "bc019") == [jobs[2]]
    assert await resolve(ALICE, "abc01") == [hers]
    assert sorted(await resolve(SYSTEM, "abc01")) == [jobs[0], hers]
    assert await resolve(LOCAL, "abc") == [], "in the middle is neither"
    await world.submit(world.job(id=jobs[3]))
    assert await resolve(LOCAL, "abc01") == [jobs[3]], "a beginning goes before an end"


@pytest.mark.parametrize("prefix", ["%", "_1930000", "0193*", "ffff", "zzzz", "☃", "'"])
async def test_a_beginning_is_no_pattern(world: World, prefix: str) -> None:
    await world.one()
    assert await world.store.resolve(LOCAL, prefix) == []


# -- counts -----------------------------------------------------------------------------------------------------------


async def test_counts_tell_how_many_stand_where(world: World) -> None:
    actor = await world.node()
    assert not any((await world.store.counts(LOCAL)).values())
    for number, state in enumerate(STATES[:-1], start=1):
        for _ in range(number):
            await stand(world, actor, state)
    await world.several(20)
    expected = {state: number for number, state in enumerate(STATES[:-1], start=1)} | {State.READY: 20}
    assert await world.store.counts(LOCAL) == expected


async def test_counts_are_of_ones_own(world: World) -> None:
    await world.several(2)
    await world.one(who=ALICE, delay=HOUR)
    assert await world.store.counts(ALICE) == {State.SCHEDULED: 1}
    assert await world.store.counts(LOCAL) == {State.READY: 2}
    assert await world.store.counts(SYSTEM) == {State.READY: 2, State.SCHEDULED: 1}


# -- several stores ---------------------------------------------------------------------------------------------------


async def test_what_one_store_has_written_another_reads_at_once(world: World, another: Store) -> None:
    actor = await world.node()
    job_id = await world.one()
    info = await another.get(LOCAL, job_id)
    assert info is not None
    assert info.state is State.READY
    claimed = await actor.take()
    await actor.say(claimed.ref, 0)
    await actor.finish(claimed)
    assert await another.get(LOCAL, job_id) == await world.store.get(LOCAL, job_id)
    assert [node.incarnation for node in await another.nodes(SYSTEM)] == [actor.incarnation]


async def test_a_closed_store_has_kept_everything(world: World, another: Store) -> None:
    job_id = await world.one(key="k")
    before = await world.info(job_id)
    await world.store.close()
    assert await another.get(LOCAL, job_id) == before


def test_reads_that_may_lag_say_so(store: Store) -> None:
    lagging = {name for name, declared in verbs(type(store)).items() if declared.stale_ok}
    assert lagging == {
        "get_many", "glance", "page", "count", "counted", "facets", "values", "resolve", "output", "tasks", "counts",
        "statistics", "history", "error_groups", "segments", "segment_extent", "unsealed",
        "find_lines",
    }  # fmt: skip

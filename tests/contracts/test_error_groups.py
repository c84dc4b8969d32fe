"""Groups of errors: which dead letters share one, what is told of it, and who is told."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rota.model import outcome
from rota.model.error_groups import ErrorGroup
from rota.model.job import DEFAULT_QUEUE
from rota.model.outcome import CrashRule, Problem
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.times import DAY, HOUR, SECOND, as_instant
from rota.store.values import JobCursor, JobFilter
from tests.contracts.test_offers import functions
from tests.contracts.test_shelves import prune
from tests.contracts.world import ALICE, BOB, BROKEN, DONE, OLGA, World

TRACE = 'Traceback (most recent call last):\n  File "/srv/mail.py", line 7, in send\n    raise ValueError(user)\n'


def failure(message: str, kind: str = "builtins.ValueError", trace: str | None = TRACE) -> outcome.Failed:
    return outcome.Failed(Problem(kind, message, trace), fatal=True)


async def fail(world: World, *messages: str, who: Principal = LOCAL, apart: int = 1, **order: Any) -> list[str]:
    """Jobs that fail with these messages, one after the other."""
    actor = await world.node()
    jobs = []
    for message in messages:
        jobs.append(await world.one(who, **order))
        (claimed,) = await actor.claim(queue=order.get("queue", DEFAULT_QUEUE))
        await actor.finish(claimed, failure(message))
        world.clock.advance(apart)
    return jobs


async def groups(world: World, who: Principal = LOCAL, **conditions: Any) -> list[ErrorGroup]:
    return await world.store.error_groups(who, JobFilter(**conditions))


async def test_the_same_failure_is_one_group(world: World) -> None:
    first, second, other = await fail(world, "no user 17", "no user 4,711", "no room")
    found = await groups(world)
    assert [(one.task, one.title, one.count, one.example) for one in found] == [
        ("true", "ValueError: no room (mail.py: send)", 1, other),
        ("true", "ValueError: no user <n> (mail.py: send)", 2, second),
    ]
    ends = [(await world.info(job)).finished_at for job in (first, second)]
    assert [found[1].first_at, found[1].last_at] == ends
    assert [(await world.info(job)).error_group for job in (first, second, other)] == [
        found[1].id, found[1].id, found[0].id,
    ]  # fmt: skip


async def test_other_tasks_have_other_groups(world: World) -> None:
    await fail(world, "no user 17")
    await fail(world, "no user 17", task="f")
    assert {one.task for one in await groups(world)} == {"true", "f"}
    assert [one.task for one in await groups(world, task="f")] == ["f"]


async def test_only_dead_letters_have_a_group(world: World) -> None:
    actor = await world.node()
    good = await world.one()
    await actor.run(DONE, good)
    assert (await world.info(good)).error_group is None
    (dead,) = await fail(world, "no user 17")
    await world.store.replay(LOCAL, [dead])
    assert (await world.info(dead)).error_group is None
    assert await groups(world) == []
    await world.promote()
    await actor.run(DONE, dead)
    assert (await world.info(dead)).error_group is None
    assert await groups(world) == []


async def test_each_way_to_fail_gives_a_group(world: World) -> None:
    """By an attempt, set aside, by crashes, and because no node offers the task."""
    actor = await world.node()
    aside = await world.one()
    await actor.run(BROKEN, aside)
    crashed = await world.one()
    await actor.take(crashed)
    assert await actor.die(CrashRule(limit=1)) == [crashed]
    (unoffered,) = await functions(world, "new", 1)
    world.clock.advance(HOUR // SECOND)
    assert await world.store.set_aside_unoffered(SYSTEM, HOUR, 10) == {"new": 1}
    titles = {one.example: one.title for one in await groups(world)}
    assert len(titles) == 3
    assert titles[aside] == "rota.UnknownTask: no task of that name"
    assert titles[crashed].startswith("rota.Crash: ")
    assert titles[unoffered] == "rota.SetAside: no node has offered task <text> within <duration>"


async def test_dead_letters_by_group(world: World) -> None:
    first, second, other = await fail(world, "no user 17", "no user 4,711", "no room")
    good = await world.one()
    _, group = await groups(world)
    assert await world.store.count(LOCAL, JobFilter(group=group.id)) == 2
    found = await world.store.find(LOCAL, JobFilter(group=group.id))
    assert {job.id for job in found} == {first, second}
    assert other not in {job.id for job in found}
    assert good not in {job.id for job in found}
    assert await world.store.find(LOCAL, JobFilter(group="0123456789ab")) == []
    assert [job.id for job in await world.store.find(LOCAL, JobFilter(group=group.id, ids=(second, other)))] == [second]


async def test_nobody_sees_groups_of_others(world: World) -> None:
    (hers,) = await fail(world, "no user 1", who=ALICE)
    his = await fail(world, "no user 2", "no user 3", who=BOB)
    ((one,), (other,)) = await groups(world, ALICE), await groups(world, BOB)
    assert one.id == other.id
    assert (one.count, one.example) == (1, hers)
    assert (other.count, other.example) == (2, his[1])
    assert other.first_at > one.last_at
    assert [group.count for group in await groups(world, SYSTEM) if group.id == one.id] == [3]
    assert await groups(world, OLGA) == []
    assert [job.id for job in await world.store.find(ALICE, JobFilter(group=one.id))] == [hers]
    assert await groups(world, Principal("eve")) == []


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_pages_of_groups(world: World, limit: int) -> None:
    """Also of groups that were last seen at the same instant."""
    texts = ["red", "green", "blue", "red 1", "black"]
    await fail(world, *texts, apart=0)
    world.clock.advance(1)
    await fail(world, "white", "green")
    whole = await groups(world)
    assert [one.title.split()[1] for one in whole][:2] == ["green", "white"]
    found: list[ErrorGroup] = []
    query = JobFilter(limit=limit)
    while page := await world.store.error_groups(LOCAL, query):
        assert len(page) <= limit
        found += page
        query = replace(query, after=JobCursor(page[-1].id, as_instant(page[-1].last_at)))
    assert found == whole
    assert len({one.id for one in found}) == len(found) == 6


async def test_conditions_on_groups(world: World) -> None:
    await fail(world, "in default 1")
    await fail(world, "elsewhere 1", queue="q")
    assert [one.count for one in await groups(world, queue="default")] == [1]
    (elsewhere,) = await groups(world, error="elsewhere")
    assert elsewhere.title == "ValueError: elsewhere <n> (mail.py: send)"
    assert await groups(world, created_after=world.clock.now() + HOUR) == []


async def test_jobs_of_earlier_versions_get_their_groups(world: World) -> None:
    await fail(world, "no user 17", "no user 18")
    (whole,) = await groups(world)
    await prune(world, ended=HOUR, dead=HOUR)
    world.backend.forget_groups()
    assert await groups(world) == []
    world.clock.advance(2 * HOUR // SECOND)  # a walk begins anew
    assert await prune(world, ended=DAY, dead=DAY) == 2
    assert await groups(world) == [whole]
    assert await prune(world, ended=DAY, dead=DAY) == 0


async def test_a_group_goes_with_its_last_job(world: World) -> None:
    jobs = await fail(world, "no user 17", "no user 18")
    await world.store.purge(LOCAL, jobs[1:])
    (left,) = await groups(world)
    assert (left.count, left.example) == (1, jobs[0])
    await world.store.purge(LOCAL, jobs)
    assert await groups(world) == []

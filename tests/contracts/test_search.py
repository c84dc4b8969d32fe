"""Searches for jobs: every condition as the oracle has it, every order, and nothing of others."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from rota.errors import InvalidInput
from rota.model.job import JobInfo, Membership
from rota.model.outcome import Cancelled, Failed, Problem, Succeeded
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.query.evaluate import fits
from rota.model.query.fields import SORTABLE, Sort
from rota.model.query.parse import parse
from rota.model.query.tree import Condition
from rota.model.requirements import Requirements
from rota.model.retry import Retry
from rota.store.graph import WorkflowFilter
from rota.store.search import pages, walk
from rota.store.values import JobFilter, JobPage
from tests.contracts.timetables import keep, move_on
from tests.contracts.world import ALICE, BOOM, FATAL, World
from tests.model.query.conditions import conditions

ARGS = (
    '{"x": 7, "a b": "mail", "items": [7.5, "7"]}', '{"x": {"y": "Mail"}, "q\\"": true}', '{"x": [false, null]}', "{}",
    '{"x": -0.25, "a.b": {"": 1e22}}', '{"x": "100%", "items": {"0": 9007199254740993}}', '{"x": null}',
    '{"x": "\\u00e9"}',
)  # fmt: skip
TASKS = ("mail", "mail.send", "Mail.SEND", "a b", "100%", "a_b", "axb", "é", "[a]")
ENDS = (
    Succeeded('{"x": 7}'), Succeeded('"mail"', 3), Succeeded(), BOOM, FATAL, Cancelled("given up", 2),
    Failed(Problem("smtp.Timeout", 'say "x" to é: mail.send 7'), fatal=True),
    Failed(Problem("a_b", "100%"), exit_code=7),
)  # fmt: skip


def drawn(count: int, seed: int = 0) -> list[Condition]:
    """Conditions, always the same ones."""
    found: list[Condition] = []

    slow = list(HealthCheck)

    @settings(max_examples=count, derandomize=True, database=None, deadline=None, suppress_health_check=slow)
    @given(conditions())
    def draw(condition: Condition) -> None:
        found.append(condition)

    draw()
    return found


async def populate(world: World, count: int, chance: random.Random) -> list[str]:
    """Jobs of all sorts, of two users."""
    flow = Membership(world.chance.job_id(world.clock.now()), "mail")
    node = await world.node("host-1")
    jobs: list[str] = []
    for number in range(count):
        who = chance.choice((LOCAL, LOCAL, ALICE))
        retry = Retry(retries=chance.choice((0, 2)))
        more: dict[str, Any] = {}
        if chance.random() < 0.3 and who is LOCAL:
            more = {"workflow": flow, "job_name": chance.choice(("a b", "load", ""))}
        job = world.job(
            task=chance.choice(TASKS), args=chance.choice(ARGS), priority=chance.randrange(10), retry=retry,
            key=chance.choice((None, f"mail {number}")), meta=chance.choice((None, '{"x": 1, "a b": "7"}')),
            requirements=Requirements(labels=chance.choice(((), ("mail", "a_b"), ("é",)))),
            delay=chance.choice((0, 0, 0, 10**12)), expires=chance.choice((None, 10**14)), **more,
        )  # fmt: skip
        jobs += await world.submit(job, who=who)
        world.clock.advance(chance.choice((0, 0.5, 90.5)))
        for _ in range(chance.choice((0, 1, 1, 1))):
            for claimed in await node.claim(1):
                world.clock.advance(chance.choice((0, 1)))
                await node.finish(claimed, chance.choice(ENDS))
    await node.claim(2)  # they run
    await keep(world)
    world.clock.advance(120)
    await move_on(world)
    return jobs


async def found(store: Any, who: Principal, query: JobFilter) -> list[str]:
    """By a walk over all pages."""
    ids: list[str] = []
    while True:
        page: JobPage = await store.page(who, query)
        assert len(page.jobs) <= query.limit
        ids += [job.id for job in page.jobs]
        if page.last is None:
            return ids
        query = replace(query, after=page.last)


async def everything(world: World) -> tuple[list[JobInfo], dict[str, str]]:
    jobs = await world.store.find(SYSTEM, JobFilter(limit=10_000))
    return jobs, {flow.id: flow.name for flow in await world.store.workflows(SYSTEM, WorkflowFilter(limit=1_000))}


def seen_by(who: Principal, jobs: Sequence[JobInfo]) -> list[JobInfo]:
    return [job for job in jobs if who.sees in (None, job.owner)]


async def compare(world: World, chosen: Sequence[Condition]) -> None:
    jobs, names = await everything(world)
    for number, condition in enumerate(chosen):
        who = (LOCAL, SYSTEM, ALICE)[number % 3]
        wanted = [job.id for job in seen_by(who, jobs) if fits(condition, job, names.get(job.workflow or ""))]
        query = JobFilter(where=condition, limit=(3, 1_000)[number % 2])
        assert await found(world.store, who, query) == wanted, condition
        count = await world.store.counted(who, query)
        assert (count.number, count.exact) == (len(wanted), True), condition


async def test_a_search_finds_what_the_oracle_says(world: World) -> None:
    await populate(world, 30, random.Random(1))
    await compare(world, drawn(120))


@pytest.mark.slow
async def test_many_searches_find_what_the_oracle_says(world: World) -> None:
    await populate(world, 150, random.Random(2))
    await compare(world, drawn(500))


@pytest.mark.sampled
async def test_every_order_is_kept_over_pages(world: World) -> None:
    await populate(world, 25, random.Random(3))
    whole = set(await found(world.store, LOCAL, JobFilter(limit=1_000)))
    for field in SORTABLE:
        for descending in (False, True):
            order = Sort(field, descending)
            ids = await found(world.store, LOCAL, JobFilter(sort=order, limit=4))
            assert len(ids) == len(set(ids)), order
            assert set(ids) == whole, order
            assert ids == await found(world.store, LOCAL, JobFilter(sort=order, limit=1_000)), order
    jobs = {job.id: job for job in seen_by(LOCAL, (await everything(world))[0])}
    by_end = await found(world.store, LOCAL, JobFilter(sort=Sort("finished"), limit=3))
    ends = [jobs[job].finished_at for job in by_end]
    there = [end for end in ends if end is not None]
    assert ends == sorted(there) + [None] * (len(ends) - len(there))
    assert there


async def test_a_search_that_examines_much_goes_on_where_it_stopped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "MOST_ROWS", 3)
    monkeypatch.setattr(pages, "FIRST", 2)
    jobs = await world.several(20, task="rare")
    jobs += await world.several(20, task="common")
    node = await world.node()
    for _ in range(30):
        await node.run()
    where = parse("NOT task:common AND args.x:*", world.clock.now())
    pages_seen = [page async for page in each(world, JobFilter(where=where, limit=3))]
    assert sum(len(page.jobs) for page in pages_seen) == 0
    assert len(pages_seen) >= 3
    progress = [page.progress for page in pages_seen]
    assert all(one is not None and one.examined < 30 for one in progress)
    backs = [one.back_to for one in progress if one is not None and one.back_to is not None]
    assert backs == sorted(backs, reverse=True)


async def each(world: World, query: JobFilter) -> Any:
    while True:
        page = await world.store.page(LOCAL, query)
        yield page
        if page.last is None:
            return
        query = replace(query, after=page.last)


async def test_an_order_without_an_index_is_refused_for_many_jobs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST_SORTED", 5)
    await world.several(6)
    with pytest.raises(InvalidInput, match="sort at most 5 jobs"):
        await world.store.page(LOCAL, JobFilter(sort=Sort("priority")))
    assert len(await found(world.store, LOCAL, JobFilter(sort=Sort("id")))) == 6
    await world.several(2, who=ALICE)
    assert len(await found(world.store, ALICE, JobFilter(sort=Sort("priority")))) == 2


async def test_facets_count_the_jobs_that_fit(world: World) -> None:
    await populate(world, 30, random.Random(4))
    jobs, _ = await everything(world)
    for who in (LOCAL, ALICE, SYSTEM):
        seen = seen_by(who, jobs)
        facets = await world.store.facets(who, JobFilter())
        assert (facets.total.number, facets.total.exact, facets.complete) == (len(seen), True, True)
        for name, read in (("state", "state"), ("task", "task"), ("queue", "queue"), ("user", "owner")):
            values = [getattr(job, read) for job in seen]
            assert {one.value: one.number for one in facets.fields[name]} == {v: values.count(v) for v in values}
        groups = {group.id: group for group in await world.store.error_groups(who, JobFilter())}
        shown = {one.value: (one.number, one.title) for one in facets.fields["group"]}
        assert shown == {group.id: (group.count, group.title) for group in groups.values()}
        assert shown
    failed = await world.store.facets(SYSTEM, JobFilter(where=parse("state:failed", 0)))
    assert [one.value for one in failed.fields["state"]] == ["failed"]


async def test_values_complete_only_from_ones_own(world: World) -> None:
    flow = Membership(world.chance.job_id(world.clock.now()), "import")
    await world.one(task="mail.send", requirements=Requirements(labels=("nightly", "night")), workflow=flow)
    await world.one(who=ALICE, task="mail.secret", queue="secret", requirements=Requirements(labels=("nix",)))
    await keep(world)
    await (await world.node(tasks=())).leave()

    async def known(who: Principal, field: str, prefix: str = "") -> list[str]:
        return await world.store.values(who, field, prefix, 10)

    for _ in range(2):  # waiting, then ended
        assert await known(LOCAL, "task", "mail") == ["mail.send"]
        assert await known(ALICE, "task", "mail") == ["mail.secret"]
        assert await known(SYSTEM, "task", "mail") == ["mail.secret", "mail.send"]
        assert await known(LOCAL, "queue") == ["default"]
        assert await known(LOCAL, "user") == [LOCAL.user]
        assert await known(ALICE, "user", "l") == []
        assert await known(SYSTEM, "user") == ["alice", "local"]
        assert await known(LOCAL, "label", "nigh") == ["night", "nightly"]
        assert await known(ALICE, "label") == ["nix"]
        assert await known(LOCAL, "workflow", "imp") == ["import"]
        assert await known(ALICE, "workflow") == []
        assert await known(LOCAL, "schedule", "n") == ["nightly"]
        assert await known(ALICE, "schedule") == []
        assert await world.store.values(LOCAL, "label", "", 1) == ["night"]
        await world.store.cancel(SYSTEM, [job.id for job in (await everything(world))[0]], "over")
    with pytest.raises(InvalidInput):
        await known(LOCAL, "args")


async def test_nothing_of_others_is_examined(world: World) -> None:
    """Progress tells how many jobs were examined: those of others don't count."""
    await world.several(5, who=ALICE)
    ended = await world.several(5, who=ALICE)
    await world.store.cancel(ALICE, ended, "over")
    await world.several(2)
    page = await world.store.page(LOCAL, JobFilter(where=parse("error~x", 0)))
    assert page.progress is not None
    assert page.progress.examined == 2


async def test_fires_that_were_made_up_for_are_found_by_the_time_of_their_order(world: World) -> None:
    """Their ids begin with the time of the fire."""
    await keep(world)
    world.clock.advance(3 * 86_400)
    since = world.clock.now()
    await move_on(world)
    made = [job.id for job in (await everything(world))[0] if job.schedule is not None]
    assert made
    assert await found(world.store, LOCAL, JobFilter(created_after=since, limit=7)) == made


async def test_a_wrong_tree_is_refused(world: World) -> None:
    from rota.model.query.tree import How, Not, Term

    deep: Condition = Term("task", How.IS, "x")
    for _ in range(60):
        deep = Not(deep)
    for wrong in (deep, Term("nothing", How.IS, "x"), Term("priority", How.IS, "x"), Term("at", How.IS, 1)):
        with pytest.raises(InvalidInput):
            await world.store.page(LOCAL, JobFilter(where=wrong))
    with pytest.raises(InvalidInput):
        await world.store.page(LOCAL, JobFilter(sort=Sort("args")))

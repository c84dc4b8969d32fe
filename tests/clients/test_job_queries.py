"""Walks and changes of many jobs. What users see of them: tests/handles/test_jobs.py."""

from __future__ import annotations

from rota.clients import job_queries
from rota.clients.jobs import JobsClient
from rota.model.lifecycle import LIVE, State
from rota.model.principal import LOCAL
from rota.store.values import JobFilter, JobPage
from tests.contracts.world import World


def client(world: World) -> JobsClient:
    return JobsClient(world.store, LOCAL, world.chance)


async def test_a_page_whose_jobs_are_gone_does_not_end_the_walk(world: World) -> None:
    """PostgreSQL reads ids and jobs one after the other; between them all jobs of a page may be purged."""
    jobs = await world.several(9)
    mine = client(world)
    page = mine.page

    async def with_a_gap(query: JobFilter) -> JobPage:
        found = await page(query)
        return JobPage([] if jobs[5] in [job.id for job in found.jobs] else found.jobs, found.last)

    mine.page = with_a_gap  # type: ignore[method-assign]
    walked = [[job.id for job in page] async for page in job_queries.pages(mine, JobFilter(), 3)]
    assert walked == [jobs[:5:-1], jobs[2::-1]]


async def test_a_change_looks_only_at_jobs_that_it_can_change(world: World) -> None:
    cancelling = job_queries.cancelling(client(world), "no")
    assert set(cancelling.filter(JobFilter(task="t")).states or ()) == LIVE
    both = (State.READY, State.FAILED)
    assert cancelling.filter(JobFilter(states=both)).states == (State.READY,)
    assert job_queries.replaying(client(world)).filter(JobFilter(states=both)).by_end


async def test_the_numbers_so_far_are_told_after_each_page(world: World) -> None:
    await world.several(450)
    change = job_queries.reprioritising(client(world), 1)
    steps = [step async for step in job_queries.changes(client(world), JobFilter(task="true"), change)]
    assert [(step.matched, step.changed) for step in steps] == [(200, 200), (400, 400), (450, 450)]

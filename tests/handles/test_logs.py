"""`app.logs`: lines of the output of many jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import rota
from rota import testing
from rota.errors import InvalidInput, InvalidQuery

app = rota.App()


@app.task
async def count(to: int) -> None:
    for number in range(to):
        print(f"number {number}")


@pytest.fixture
async def harness() -> AsyncIterator[testing.Harness]:
    async with testing.harness(app) as harness:
        yield harness


async def test_lines_are_found_newest_first_with_context(harness: testing.Harness) -> None:
    jobs = [await count.submit(to=3), await count.submit(to=2)]
    await harness.run_due()
    found = [line async for line in app.logs.search("number task:count")]
    assert sorted(line.text for line in found) == ["number 0", "number 0", "number 1", "number 1", "number 2"]
    assert [line.place for line in found] == sorted((line.place for line in found), reverse=True)
    (line,) = [line async for line in app.logs.search('"number 1"', before=1, after=1) if line.job_id == jobs[0].id]
    assert [one.text for one in (*line.before, line, *line.after)] == ["number 0", "number 1", "number 2"]
    assert (line.task, line.attempt, line.stream) == ("count", 1, "stdout")


async def test_a_search_may_be_left_and_bounded(harness: testing.Harness) -> None:
    await count.submit(to=250)
    await harness.run_due()
    assert len([line async for line in app.logs.search(limit=120)]) == 120
    assert len([line async for line in app.logs.search()]) == 250
    async for line in app.logs.search():
        assert line.text == "number 249"
        break


def test_the_sync_twin() -> None:
    with testing.harness(app) as harness:
        count.submit_sync(to=3)
        harness.run_due()
        assert [line.text for line in app.logs.search_sync("number", limit=2)] == ["number 2", "number 1"]


async def test_wrong_searches(harness: testing.Harness) -> None:
    with pytest.raises(InvalidQuery, match="there is no field"):
        await anext(aiter(app.logs.search("colour:red")))
    with pytest.raises(InvalidInput, match="limit"):
        await anext(aiter(app.logs.search(limit=0)))
    with pytest.raises(InvalidInput, match="before"):
        await anext(aiter(app.logs.search(before=51)))

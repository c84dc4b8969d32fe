"""Jobs by what is known of them: reading, counting and changing many, from async and from ordinary code."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.clients import job_queries
from rota.clients.job_queries import Changes
from rota.errors import InvalidInput, InvalidQuery, NotFound
from rota.handles.jobs import JobQuery
from rota.model.lifecycle import State
from rota.model.query.fields import Sort
from rota.store.search import pages, walk
from rota.store.values import JobFilter, JobPage
from rota.testing import Harness, harness


class Shop:
    """An app with a few tasks, and short ways to order."""

    def __init__(self, app: rota.App) -> None:
        self.app = app

        @app.task(retry=0)
        async def send(to: str) -> str:
            if to.startswith("bad"):
                raise ValueError(f"no such address: {to}")
            return to

        @app.task(queue="reports", labels=["nightly"])
        async def report() -> None: ...

        self.send, self.report = send, report

    async def sent(self, *names: str, **options: Any) -> list[str]:
        return [(await self.send.options(**options).submit(to=name)).id for name in names]


@pytest.fixture
def app() -> rota.App:
    return rota.App("sqlite:///never-made.db")


@pytest.fixture
def shop(app: rota.App) -> Shop:
    return Shop(app)


@pytest.fixture
async def test(shop: Shop) -> AsyncIterator[Harness]:
    async with harness(shop.app) as test:
        yield test


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every walk of a few jobs takes several pages."""
    monkeypatch.setattr(job_queries, "PAGE", 3)
    monkeypatch.setattr(job_queries, "LARGEST_SORTED", 3)


async def ids(query: JobQuery) -> list[str]:
    return [info.id async for info in query]


@pytest.mark.usefixtures("test", "small_pages")
async def test_all_pages_newest_first(shop: Shop) -> None:
    given = await shop.sent(*"abcdefgh")
    assert await ids(shop.app.jobs()) == given[::-1]
    assert [info.id for info in await shop.app.jobs().list()] == given[::-1]
    assert [info.id for info in await shop.app.jobs().list(limit=4)] == given[:3:-1]
    first = await shop.app.jobs().first()
    assert first is not None
    assert (first.id, first.args) == (given[-1], {"to": "h"})
    assert await shop.app.jobs().count() == 8


@pytest.mark.usefixtures("small_pages")
async def test_each_condition_is_read(shop: Shop, test: Harness) -> None:
    app = shop.app
    good, bad = await shop.sent("a", "bad")
    start = app._core.clock.now()
    await test.run_due()
    await test.advance("1m")
    late = (await shop.report.options(delay="1h").submit()).id
    noon = datetime.fromtimestamp((start + 30_000_000) / 1e6, UTC)
    found: dict[str, Any] = {
        "state": (State.SUCCEEDED, [good]),
        "task": ("s?nd", [bad, good]),
        "queue": ("reports", [late]),
        "error": ("no such address", [bad]),
        "label": ("nightly", [late]),
        "ids": ([good, await app.job(late)], [late, good]),
        "created_after": (noon, [late]),
        "created_before": (noon.isoformat(), [bad, good]),
        "ended_before": (noon, [bad, good]),
        "ended_after": (noon, []),
    }
    for name, (value, expected) in found.items():
        assert await ids(app.jobs(**{name: value})) == expected, name
    assert await ids(app.jobs(task=shop.send, state=["failed", "succeeded"])) == [bad, good]
    assert await ids(app.dead(task="send", ended_before=noon)) == [bad]
    assert await ids(app.jobs(JobFilter(queue="reports"), state="scheduled")) == [late]


@pytest.mark.usefixtures("test")
async def test_a_task_has_the_jobs_under_its_former_names(shop: Shop) -> None:
    (old,) = await shop.sent("a")
    await shop.report.submit()
    renamed = rota.App("sqlite:///:memory:").task(name="mail[x]", aliases=["send"])(lambda to: None)
    assert await ids(shop.app.jobs(task=renamed)) == [old]
    assert await shop.app.jobs(task=renamed).count() == 1
    assert await ids(shop.app.dead(task=renamed)) == []


@pytest.mark.usefixtures("test")
async def test_the_jobs_of_workflows_and_schedules(shop: Shop, test: Harness) -> None:
    async with shop.app.workflow("letters") as flow:
        flow.add(shop.send, to="a")
        flow.add(shop.send, to="b")
    schedule = await shop.app.schedule("often", shop.send, every="1m", args={"to": "c"})
    await test.advance("2m")
    for given in (rota.Workflow(shop.app, flow.id), flow.id, "letters"):
        assert await shop.app.jobs(workflow=given).count() == 2
    assert await shop.app.jobs(schedule=schedule).count() == await shop.app.jobs(schedule="often").count() == 2
    with pytest.raises(NotFound, match="no workflow 'none'"):
        await shop.app.jobs(workflow="none").count()


@pytest.mark.usefixtures("small_pages")
async def test_many_are_changed_in_steps(shop: Shop, test: Harness) -> None:
    app = shop.app
    waiting = await shop.sent(*"abcdefg", delay="1h")
    assert await app.jobs(task="send").reprioritise(2) == Changes(7, 7)
    assert await app.jobs(ids=waiting[:2]).retry() == Changes(2, 2)
    await test.run_due()
    assert await app.jobs(task="send").cancel("not needed") == Changes(5, 5), "two have ended"
    reasons = [info.reason async for info in app.jobs(state="cancelled")]
    assert reasons == ["not needed"] * 5
    assert [info.priority async for info in app.jobs()] == [2] * 7
    assert await app.jobs(task="send").replay() == Changes(5, 5)
    assert await app.jobs(task="send").purge() == Changes(2, 2)
    assert await app.jobs().count() == 5


@pytest.mark.usefixtures("small_pages")
async def test_groups_of_errors(shop: Shop, test: Harness) -> None:
    await shop.sent("bad-1", "bad-2", "good")
    await test.run_due()
    (group,) = await shop.app.dead().groups()
    assert (group.task, group.count) == ("send", 2)
    assert group.title == "ValueError: no such address: bad-<n> (test_jobs.py: send)"
    found = await shop.app.dead(group=group.id).list()
    assert {info.error_group for info in found} == {group.id}
    assert group.example == max(info.id for info in found)
    assert await shop.app.dead(queue="reports").groups() == []
    assert await shop.app.dead(group=group.id).replay() == Changes(2, 2)


async def test_a_dead_letter_that_fails_again_is_replayed_once(shop: Shop, test: Harness) -> None:
    await shop.sent(*(f"bad {n}" for n in range(8)))
    await test.run_due()
    client = await shop.app._core.client()
    replay = client.replay

    async def and_fail_again(given: Any) -> list[bool]:
        done = await replay(given)
        await test.advance("1s")
        return done

    client.replay = and_fail_again  # type: ignore[method-assign, assignment]
    assert await shop.app.jobs(state="failed").replay() == Changes(8, 8)
    assert [info.replays async for info in shop.app.dead()] == [1] * 8


CHANGES: dict[str, Callable[[JobQuery], Any]] = {
    "cancel": lambda query: query.cancel(),
    "retry": lambda query: query.retry(),
    "replay": lambda query: query.replay(),
    "purge": lambda query: query.purge(),
    "reprioritise": lambda query: query.reprioritise(1),
}


@pytest.mark.usefixtures("test")
@pytest.mark.parametrize("name", CHANGES)
async def test_all_jobs_are_changed_only_if_that_is_said(shop: Shop, name: str) -> None:
    (job,) = await shop.sent("a")
    with pytest.raises(InvalidInput, match=f"{name} many jobs: 'no condition' is not valid; expected at least one"):
        await CHANGES[name](shop.app.jobs(task=None))
    assert await shop.app.jobs(ids=[job], state="ready").count() == 1


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"state": "dead"}, "state: 'dead' is not valid; expected one or several of blocked, scheduled"),
        ({"state": ["failed", 3]}, "state: .* expected one or several of"),
        ({"state": 3}, "state: 3 is not valid"),
        ({"task": 3}, "task: 3 is not valid; expected a text"),
        ({"queue": ""}, "queue: '' is not valid"),
        ({"error": "\udcff"}, "error: .* expected a text in UTF-8"),
        ({"ids": "abc"}, "ids: 'abc' is not valid; expected a list of ids"),
        ({"ids": [1]}, "ids: 1 is not valid"),
        ({"ended_before": "yesterday"}, "ended_before: 'yesterday' is not valid; expected a time in ISO 8601"),
        ({"created_after": datetime(2027, 1, 1)}, "created_after: .* the offset is missing"),
        ({"name": "x"}, "condition: 'name' is not valid; expected one of ids, state, task"),
    ],
)
def test_a_wrong_condition_is_refused_at_the_call(app: rota.App, conditions: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        app.jobs(**conditions)


def test_a_condition_is_given_once(app: rota.App) -> None:
    with pytest.raises(
        InvalidInput, match="state: 'ready' is not valid; expected no second condition on state: the query has failed"
    ):
        app.dead(state="ready")  # type: ignore[call-arg]


@pytest.mark.usefixtures("test")
@pytest.mark.parametrize("limit", [0, -1, True, "10", 1.5])
async def test_a_wrong_limit_is_refused(app: rota.App, limit: Any) -> None:
    with pytest.raises(InvalidInput, match=r"limit: .* is not valid; expected a whole number from 1"):
        await app.jobs().list(limit)


def test_a_query_says_what_it_is(app: rota.App) -> None:
    assert repr(app.jobs(task="mail.*")) == "JobQuery(task='mail.*')"
    assert repr(app.jobs()) == "JobQuery()"


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Shop]:
    with rota.App(f"sqlite:///{tmp_path}/rota.db") as app:
        yield Shop(app)


@pytest.mark.usefixtures("small_pages")
def test_the_same_from_ordinary_code(plain: Shop) -> None:
    app = plain.app
    given = [plain.send.submit_sync(to=name).id for name in "abcdefg"]
    assert [info.id for info in app.jobs(task="send")] == given[::-1]
    assert [info.id for info in app.jobs().list_sync(2)] == given[:-3:-1]
    first = app.jobs(state="ready").first_sync()
    assert first is not None
    assert first.id == given[-1]
    assert app.jobs(state="failed").first_sync() is None
    assert app.jobs(state="ready").count_sync() == 7
    assert app.jobs(task="send").reprioritise_sync(1) == Changes(7, 7)
    assert app.jobs(task="send").cancel_sync("no") == Changes(7, 7)
    assert app.jobs(task="send").retry_sync() == Changes(7, 7)
    assert app.jobs(task="send", created_after=datetime.now(UTC) - timedelta(hours=1)).cancel_sync() == Changes(7, 7)
    assert app.jobs(task="send").replay_sync() == Changes(7, 7)
    assert app.dead(task="send").purge_sync() == Changes(0, 0)
    assert list(app.dead()) == []


# -- queries ---------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("small_pages")
async def test_a_query_stands_beside_conditions(shop: Shop, test: Harness) -> None:
    app = shop.app
    good, bad = await shop.sent("a", "bad")
    await test.run_due()
    late = (await shop.report.options(delay="1h").submit()).id
    assert await ids(app.jobs("state:failed OR label:nightly")) == [late, bad]
    assert await ids(app.jobs("state:failed OR label:nightly", task="s*")) == [bad]
    assert await ids(app.jobs('"such address"')) == await ids(app.dead("args.to:bad")) == [bad]
    assert await ids(app.jobs("state:ended", sort="id")) == [good, bad]
    assert await ids(app.jobs(sort="task")) == [late, good, bad]
    assert await ids(app.jobs(JobFilter(queue="reports"), sort="-task")) == [late]
    assert [info.id for info in await app.jobs("task:*", sort="-id").list(2)] == [late, bad]
    assert await app.jobs("addr").count() == 0, "no word of its own"
    assert await app.jobs("address").count() == 1
    assert await app.jobs("state:ended").counted() == rota.JobCount(2)
    facets = await app.jobs("task:*").facets()
    assert (facets.total, facets.complete) == (rota.JobCount(3), True)
    assert facets.fields["task"] == [rota.Facet("send", 2), rota.Facet("report", 1)]
    (group,) = await app.dead("error~address").groups()
    assert group.example == bad
    with pytest.raises(InvalidQuery, match="a list of groups takes conditions on fields only"):
        await app.dead("address").groups()


@pytest.mark.usefixtures("small_pages")
async def test_relative_times_count_from_each_use(shop: Shop, test: Harness) -> None:
    given = await shop.sent(*"abcdefgh")
    await test.run_due()
    query = shop.app.jobs("finished>-1m")
    found = []
    async for info in query:
        found.append(info.id)
        await test.advance("20s")
    assert found == given[::-1], "one instant for all pages of a walk"
    assert await query.count() == 0
    assert (await query.counted(), (await query.facets()).total) == (rota.JobCount(0), rota.JobCount(0))


@pytest.mark.usefixtures("small_pages", "test")
async def test_a_long_search_goes_on_over_short_and_empty_pages(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    given = await shop.sent(*(f"n{n}" for n in range(40)))
    monkeypatch.setattr(walk, "MOST_ROWS", 4)
    monkeypatch.setattr(pages, "FIRST", 2)
    client = await shop.app._core.client()
    page, lengths = client.page, list[int]()

    async def counted(query: JobFilter) -> JobPage:
        found = await page(query)
        lengths.append(len(found.jobs))
        return found

    monkeypatch.setattr(client, "page", counted)
    rare = f'id:{given[0]} OR /"to":"n3"/ OR id:{given[20]}'
    assert await ids(shop.app.jobs(rare)) == [given[20], given[0]]
    assert lengths.count(0) > 2
    first = await shop.app.jobs(f"id:{given[0]}").first()
    assert first is not None
    assert first.id == given[0]
    assert await shop.app.jobs(rare).count() == 2


@pytest.mark.usefixtures("small_pages")
async def test_changes_take_a_query_and_no_order(shop: Shop, test: Harness) -> None:
    app = shop.app
    await shop.sent(*"abcdefg", delay="1h")
    assert await app.jobs("args.to:a,b OR args.to:c", sort="-due").cancel("no") == Changes(3, 3)
    assert await app.jobs("reason:no", state="cancelled").purge() == Changes(3, 3)
    await shop.sent("bad 1", "bad 2")
    await test.run_due()
    assert await app.dead('"bad 1"').replay() == Changes(1, 1)


@pytest.mark.usefixtures("test")
@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("text", ["", "*", " ", "(*)"])
async def test_a_query_that_fits_everything_is_no_condition(shop: Shop, name: str, text: str) -> None:
    await shop.sent("a")
    for query in (shop.app.jobs(text), shop.app.dead(text)):
        with pytest.raises(InvalidInput, match="'no condition' is not valid; expected at least one"):
            await CHANGES[name](query)
    assert await shop.app.jobs("state:ready").count() == 1


def test_a_wrong_query_is_refused_at_the_call(app: rota.App) -> None:
    with pytest.raises(InvalidQuery, match=r'query, character 8: there is no field "stat"; did you mean "state"\?'):
        app.jobs("task:a stat:failed")
    with pytest.raises(InvalidQuery, match="expected a text"):
        app.jobs(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidQuery, match="expected a text"):
        app.dead(JobFilter())  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"sort: 'tok' is not valid; expected .* did you mean took\?"):
        app.dead(sort="tok")
    with pytest.raises(InvalidInput, match="sort: 7 is not valid"):
        app.jobs(sort=7)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="sort: 'took' is not valid; expected no second order: the query has id"):
        app.jobs(JobFilter(sort=Sort("id")), sort="took")


def test_a_query_shows_its_text_and_its_order(app: rota.App) -> None:
    shown = repr(app.jobs("state:failed", task="mail.*", sort="-took"))
    assert shown == "JobQuery('state:failed', task='mail.*', sort='-took')"


@pytest.mark.usefixtures("small_pages")
def test_queries_from_ordinary_code(plain: Shop) -> None:
    app = plain.app
    given = [plain.send.submit_sync(to=name).id for name in "abcdefg"]
    assert [info.id for info in app.jobs("task:send", sort="id")] == given
    assert [info.id for info in app.jobs("state:ready", sort="-priority").list_sync(9)] == given[::-1]
    assert app.jobs("args.to:a").counted_sync() == rota.JobCount(1)
    assert app.jobs("args.to:a").facets_sync().fields["queue"] == [rota.Facet("default", 1)]
    assert app.jobs("args.to:a").cancel_sync("no") == Changes(1, 1)

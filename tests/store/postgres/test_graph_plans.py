"""The plans of all queries about jobs that wait for others, among two hundred thousand families that are none of their
business. Those inside the functions `settle` and `accept` too: the server tells of nested statements.

As in test_plans.py: rows and pages, whatever the server believes about the tables.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import NamedTuple

import pytest

from rota.clock import Chance
from rota.model.graph import Edge, Need
from rota.model.job import Membership, NewJob, Spec
from rota.model.lifecycle import JobEvent
from rota.model.outcome import Ending, Problem, Settlement
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import DAY, HOUR
from rota.store.carriers import graph as carried
from rota.store.graph import WorkflowFilter
from rota.store.postgres import PostgresStore, graph, nodes, orders, reads, work
from rota.store.postgres.database import Unit
from rota.store.values import Retention
from rota.store.walks import PIECE
from tests.store import queries
from tests.store.postgres import plans
from tests.store.postgres.crowd import (
    CLOCK,
    NOW,
    SHARED,
    Large,
    large_tables,
    run_as_owner,
    sql_id,
    uid,
    uids,
)
from tests.store.postgres.plans import Seen, observe, pruned

pytestmark = pytest.mark.slow

MANY, FAMILY = 200_000, 100
# Sorts of jobs, each with ids of its own.
RUNS, CHILD, ELDER, STRANGER, ENDED, DEAD, SKIPPED, FLOW = range(41, 49)
GROWING = re.compile(
    r"^(jobs|history|attempts|output|keys|outbox|edges|workflows|members)(?:_(?:\d{8}|other|lasting|dated))?$"
)


def live(sort: int, state: str, last: int, ties: str, node: bool = False) -> str:
    return f"""
INSERT INTO rota.jobs ({SHARED}, fence, tries, node, claimed_at, started_at, tied, parents, waits)
SELECT {sql_id(sort)}, 'local', '{state}', 'q', 'command', 't', 5, {NOW} + i, {NOW}, NULL, {NOW}, '{{}}', 'd', '{{}}',
       '{{}}', 1, 1, {"'inc0'" if node else "NULL"}, {NOW}, {NOW}, {ties}
FROM generate_series(1, {last}) AS i"""


def past(sort: int, state: str, last: int) -> str:
    return f"""
INSERT INTO rota.history ({SHARED}, fence, tries, node, started_at, outcome, finished_at, lasting)
SELECT {sql_id(sort)}, 'local', '{state}', 'q', 'command', 't', 5, {NOW} + i, {NOW} + i, NULL, {NOW}, '{{}}', 'd',
       '{{}}', '{{}}', 1, 1, 'n', {NOW}, {"NULL" if state == "skipped" else f"'{state}'"}, {NOW} + i,
       {state == "failed"}
FROM generate_series(1, {last}) AS i"""


def tied(child: int, parent: str, standing: str, last: int) -> str:
    return f"""
INSERT INTO rota.edges (child, parent, need, state, at)
SELECT {sql_id(child)}, p.id, 'success', '{standing}', {NOW} + i
FROM generate_series(1, {last}) AS i, LATERAL (SELECT {parent} AS id) AS p"""


def of(sort: int, number: str) -> str:
    return sql_id(sort).replace("to_hex(i)", f"to_hex({number})")


CROWD = [
    live(RUNS, "running", 20, "true, 0, 0", node=True),
    live(CHILD, "blocked", 20 * FAMILY, "false, 1, 1"),
    tied(CHILD, of(RUNS, f"(i - 1) / {FAMILY} + 1"), "open", 20 * FAMILY),
    live(ELDER, "scheduled", MANY, "true, 0, 0"),
    live(STRANGER, "blocked", MANY, "false, 1, 1"),
    tied(STRANGER, of(ELDER, "i"), "open", MANY),
    past(ENDED, "succeeded", MANY),
    tied(ENDED, of(ENDED, "i + 1"), "met", MANY),
    past(DEAD, "failed", 1_000),
    past(SKIPPED, "skipped", 1_000 * 10),
    tied(SKIPPED, of(DEAD, "(i - 1) / 10 + 1"), "broken", 1_000 * 10),
    f"INSERT INTO rota.workflows SELECT {sql_id(FLOW)}, 'local', 'w' || i % 5000, {NOW} + i "
    f"FROM generate_series(1, {MANY // 10}) AS i",
    f"INSERT INTO rota.members SELECT {of(FLOW, '(i - 1) / 10 + 1')}, {sql_id(ENDED)}, i "
    f"FROM generate_series(1, {MANY}) AS i",
    f"""INSERT INTO rota.nodes (incarnation, id, roles, queues, tasks, version, state, started_at, seen_at, lease, lock)
        VALUES ('inc0', 'box', '["worker"]', '{{"q":4}}', '{{t}}', '1', 'live', {NOW}, {NOW}, 1, 1)""",
]

OURS = "SELECT oid FROM pg_class WHERE relnamespace = 'rota'::regnamespace"
FORGET = f"DELETE FROM pg_statistic WHERE starelid IN ({OURS})"
BELIEFS: dict[str, list[str]] = {
    "never analysed": [FORGET, f"UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE oid IN ({OURS})"],
    "analysed when empty": [FORGET, f"UPDATE pg_class SET reltuples = 0, relpages = 0 WHERE oid IN ({OURS})"],
    "the truth": ["ANALYZE rota.jobs, rota.history, rota.edges, rota.workflows, rota.members, rota.settling"],
}


@pytest.fixture(scope="module")
def large() -> Iterator[Large]:
    before, plans.GROWING = plans.GROWING, GROWING
    with large_tables(CROWD) as large:
        yield large
    plans.GROWING = before


@pytest.fixture(scope="module", params=list(BELIEFS))
def believing(request: pytest.FixtureRequest, large: Large) -> Large:
    run_as_owner(large.url, BELIEFS[request.param])
    return large


@pytest.fixture
async def store(believing: Large) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(believing.url, CLOCK, Chance(1), server_time=False)
    yield store
    await store.close()


# -- what is done -----------------------------------------------------------------------------------------------------


def new(number: int, *parents: str, flow: Membership | None = None) -> NewJob:
    return NewJob(
        uid(99, number), "t", Spec.function("t"), after=tuple(Edge(one, Need.FINISH) for one in parents), workflow=flow
    )


def ends(event: JobEvent, ending: Ending) -> Callable[[Unit], Awaitable[None]]:
    async def end(unit: Unit) -> None:
        """Three at once, with a hundred children each."""
        problem = Problem("E", "boom")
        batch = [Settlement(job, 1, event, ending, error=problem) for job in uids(RUNS, 1, 2, 3)]
        assert set(await work.finish(unit, batch)) == {"applied"}
        assert not await unit.value("unsettled_of", ids=uids(RUNS, 1, 2, 3))

    return end


async def settle_nothing(unit: Unit) -> None:
    assert (await graph.settle_any(unit, 2_000)).waiting


async def submit(unit: Unit) -> None:
    flow = Membership(uid(98, 1), "new")
    order = [new(1, uid(ELDER, 7), uid(ENDED, 7), flow=flow), new(2, uid(99, 1), uid(RUNS, 3), flow=flow)]
    (answer,) = await orders.submit(unit, LOCAL, [order], DAY)
    assert isinstance(answer, list)


async def replay(unit: Unit) -> None:
    assert all(await orders.replay(unit, SYSTEM, uids(DEAD, *range(1, 11)), again=False))


async def purge(unit: Unit) -> None:
    assert all(await orders.purge(unit, SYSTEM, uids(ENDED, *range(1, 51))))


async def parents(unit: Unit) -> None:
    assert len(await carried.parents(unit, LOCAL, uid(CHILD, 5))) == 1


async def newest(unit: Unit) -> None:
    assert len(await carried.workflows(unit, LOCAL, WorkflowFilter(limit=50))) == 50


async def one(unit: Unit) -> None:
    assert len(await carried.workflow(unit, LOCAL, uid(FLOW, 77))) == 10


async def get(unit: Unit) -> None:
    (info,) = await reads.get_many(unit, LOCAL, [uid(ENDED, 5)])
    assert info is not None
    assert info.workflow == uid(FLOW, 1)


async def prune(unit: Unit) -> None:
    CLOCK.jump(DAY // 1_000_000)
    try:
        assert await pruned(unit, Retention(HOUR, HOUR, DAY, DAY), 50) >= 50
    finally:
        CLOCK.jump(-DAY // 1_000_000)


async def walk(unit: Unit) -> None:
    """The jobs of nearly all edges and workflows are there: so much is looked at and no more, wherever it begins."""
    CLOCK.jump(DAY // 1_000_000)
    try:
        for query, beginning in nodes.WALKS.items():
            looked, _, last = await nodes.sweep(unit, query, beginning, HOUR)
            assert looked == PIECE
            assert (await nodes.sweep(unit, query, tuple(last), HOUR))[2] > last
    finally:
        CLOCK.jump(-DAY // 1_000_000)


async def settle_piece(unit: Unit) -> None:
    await unit.connection.execute("INSERT INTO rota.settling (job) VALUES ($1)", uid(ENDED, 5))
    assert not await graph.settle_piece(unit, uids(ENDED, *range(1, 6)))


class Deed(NamedTuple):
    do: Callable[[Unit], Awaitable[None]]
    reading: bool
    rows: int  # at most, of all statements together, also of those inside functions
    pages: int
    expected: set[str]  # queries that are seen


DEEDS = {
    "parents succeed": Deed(ends(JobEvent.SUCCEED, Ending.SUCCEEDED), False, 6_000, 40_000, {"settle"}),
    "parents fail": Deed(ends(JobEvent.FAIL, Ending.FAILED), False, 9_000, 60_000, {"settle"}),
    "settle nothing": Deed(settle_nothing, False, 10, 100, {"settle", "anyone_waits"}),
    "submit": Deed(submit, False, 200, 3_000, {"accept"}),
    "replay": Deed(replay, False, 4_000, 40_000, {"skipped_below", "reopen_jobs"}),
    "purge": Deed(purge, False, 800, 9_000, {"delete_edges", "delete_members", "unsettled_of"}),
    "parents": Deed(parents, True, 10, 100, {"parent_rows"}),
    "the newest": Deed(newest, True, 2_500, 12_000, {"workflow_rows", "workflow_counts"}),
    "one": Deed(one, True, 200, 1_000, {"workflow_jobs", "workflow_edges"}),
    "get": Deed(get, True, 1_100, 300, {"workflows_of_jobs"}),
    "prune": Deed(prune, False, 6_000, 40_000, set()),
    "before a purge": Deed(settle_piece, False, 100, 1_000, {"open_edges_of"}),
    "walk": Deed(walk, False, 12 * PIECE, 60 * PIECE, {"sweep_edges", "sweep_members", "sweep_workflows"}),
}
# Asked by hand, now and then: the ends of ids have no index.
WHOLE = {"resolve_workflow"}


def complaints(deed: Deed, seen: list[Seen], sizes: dict[str, int]) -> list[str]:
    rows, pages = sum(one.visited for one in seen), sum(one.pages for one in seen if one.name not in OUTER)
    found = [f"{one.name[:60]} reads all of {whole}" for one in seen if (whole := one.whole(sizes))]
    found += [f"{query} was not seen" for query in deed.expected - {one.name for one in seen}]
    found += [f"{rows} rows were visited, {deed.rows} would do"] if rows > deed.rows else []
    found += [f"{pages} pages were visited, {deed.pages} would do"] if pages > deed.pages else []
    return [*found, *map(str, seen)] if found else []


OUTER = {"settle", "accept"}  # their pages are those of the statements inside


# Found too expensive, and not cured yet: the planner may begin at the wrong end (see what the test tells).
KNOWN = {"the newest", "one"}


@pytest.mark.parametrize("name", DEEDS)
async def test_it_goes_by_its_indexes_and_costs_what_it_moves(
    believing: Large, store: PostgresStore, name: str
) -> None:
    """It is carried out, looked at and taken back."""
    pools, deed = store._database.pools(), DEEDS[name]
    seen = await observe(store._database, pools.reads if deed.reading else pools.work, deed.do, {})
    found = complaints(deed, seen, believing.sizes)
    if found and name in KNOWN:
        pytest.xfail(found[0])
    assert not found, "\n".join(found)


def test_every_query_is_looked_at() -> None:
    covered = {name for deed in DEEDS.values() for name in deed.expected} - {"accept"}
    assert covered | WHOLE == queries.names("postgres", "graph")

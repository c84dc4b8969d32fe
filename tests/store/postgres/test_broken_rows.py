"""Rows that someone wrote by hand: shown as they are, and in nobody's way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import psycopg.rows
import pytest

from rota.clock import ManualClock
from rota.errors import StoreError
from rota.model.job import JobInfo, Verdict
from rota.model.lifecycle import State
from rota.model.outcome import CrashRule
from rota.model.principal import LOCAL, SYSTEM
from rota.model.task import TaskInfo
from rota.model.times import DAY
from rota.store.postgres import PostgresStore
from rota.store.values import Cancelling, JobFilter, Position, Retention
from rota.views.jobs import JobView
from tests.contracts.admission import mutex
from tests.contracts.world import BOOM, DONE, FATAL, PLENTY, World, settled
from tests.store.postgres.backends import Postgres

Db = psycopg.Connection[tuple[Any, ...]]
Row = dict[str, Any]
LARGEST = 2**63 - 1


@pytest.fixture
def db(store: PostgresStore, backend: Postgres) -> Iterator[Db]:
    with backend.connection() as connection:
        yield connection


def rows(db: Db, query: str, *values: object) -> list[Row]:
    with db.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        return cursor.execute(query.encode(), values).fetchall()


COUNTS = ("fence", "tries", "failures", "crashes", "interruptions", "replays")


# -- rows that someone wrote by hand ----------------------------------------------------------------------------------

BROKEN = {
    "arguments that are no JSON": "args = '{\"a\": '",
    "arguments that are no object": "args = '[1]'",
    "a specification that is no JSON": "spec = 'argv'",
    "an empty specification": "spec = ''",
    "a policy that is no JSON": "retry = 'often'",
    "a policy that is no policy": 'retry = \'{"retries": "three"}\'',
    "a policy that is refused": 'retry = \'{"retries": -1, "backoff": "soon"}\'',
    "an empty task": "task = ''",
    "a negative timeout": "timeout = -5",
    "an absurd timeout": f"timeout = {LARGEST}",
    "the lowest rank": f"rank = {-LARGEST - 1}",
    "an absurd rank": f"rank = {-LARGEST}",
    "an absurd time": f"run_at = {LARGEST}, created_at = {-LARGEST}",
    "an absurd expiry": f"expires_at = {LARGEST}",
    "a start before its time": "started_at = -1",
    "deep arguments": "args = repeat('[', 100000)",
}
ABSURD = {f"{name} {value}": f"{name} = {value}" for name in COUNTS for value in (LARGEST, -1)}
every = pytest.mark.parametrize("how", BROKEN)


def spoil(db: Db, job: str, how: str) -> None:
    cursor = db.execute(f"UPDATE jobs SET {(BROKEN | ABSURD)[how]} WHERE id = %s".encode(), (job,))
    assert cursor.rowcount == 1


def state(db: Db, job: str) -> str:
    query = "SELECT state FROM jobs WHERE id = %s UNION ALL SELECT state FROM history WHERE id = %s"
    ((found,),) = db.execute(query, (job, job)).fetchall()
    return str(found)


async def three(world: World, db: Db, how: str) -> list[str]:
    jobs = await world.several(3)
    spoil(db, jobs[1], how)
    return jobs


@pytest.mark.parametrize("how", ABSURD)
async def test_the_schema_refuses_numbers_that_nobody_counts_to(world: World, db: Db, how: str) -> None:
    """One such row would make every claim or finish that meets it fail, and all others in its batch with it."""
    job = await world.one()
    with pytest.raises(psycopg.errors.CheckViolation):
        spoil(db, job, how)


UNREADABLE = [
    "no json", "[]", '{"keys": 5}', '{"keys": null}', '{"keys": [5]}', '{"keys": [[]]}', '{"keys": [[5, 1]]}',
    '{"keys": [["m", "one", null]]}', '{"keys": [["m", 0]]}', '{"keys": [["m", 1, [1]]]}',
    '{"keys": [["m", 1, [1, "s"]]]}',
    '{"keys": [["m", 1, null, "often"]]}', '{"keys": [["m", 1], ["m", 2]]}', '{"keys": [["m", 10000000000]]}',
    '{"alone": null}', '{"alone": {}}', '{"alone": {"drain": "long"}}', '{"alone": {"drain": 1, "cancel": "no"}}',
    '{"flow": 5}', '{"flow": ""}', '{"flow": ["a"]}', '{"flow": "%s"}' % ("x" * 201),
]  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("requirements", UNREADABLE)
async def test_requirements_that_can_t_be_read_are_refused(world: World, db: Db, requirements: str) -> None:
    """They would stop every claim that meets them, and the ends of others that hold the same key."""
    holder, waiter = await world.several(2, requirements=mutex("m"))
    actor = await world.node()
    await world.store.admit(SYSTEM, PLENTY)
    claimed = await actor.take(holder)
    with pytest.raises((psycopg.errors.CheckViolation, psycopg.errors.InvalidTextRepresentation)):
        db.execute("UPDATE jobs SET requirements = %s WHERE id = %s", (requirements, waiter))
    assert await actor.finish(claimed) is Verdict.APPLIED
    await actor.take(waiter)


async def test_requirements_that_can_be_read_are_not_refused(world: World, db: Db) -> None:
    job = await world.one()
    for requirements in (
        None, '{}', '{"flow": "bulk"}', '{"labels": ["a"]}', '{"keys": []}', '{"keys": [["m"]]}',
        '{"keys": [["m", 1, [5, 1000000], "skip"]]}',
        '{"keys": [["a", null, null], ["b", 100000, [100000, 2678400000000]]]}',
    ):  # fmt: skip
        db.execute("UPDATE jobs SET requirements = %s WHERE id = %s", (requirements, job))


@pytest.mark.sampled(4)
@every
async def test_broken_rows_do_not_stop_the_others(world: World, db: Db, how: str) -> None:
    jobs = await three(world, db, how)
    actor = await world.node()
    infos = {info.id: info for info in await world.store.find(SYSTEM, JobFilter())}
    assert set(infos) == set(jobs)
    for job in jobs:
        info = await world.store.get(SYSTEM, job)
        assert isinstance(info, JobInfo)
        assert info == infos[job]
        JobView.of(info)
    claimed = {one.job_id: one for one in await actor.claim()}
    assert set(claimed) == set(jobs), "a worker can take it in hand and settle it itself"
    assert await actor.claim() == []
    await actor.renew()
    for result in (BOOM, DONE):
        verdicts = await world.store.finish(
            SYSTEM, [settled(claimed[jobs[0]], result), settled(claimed[jobs[2]], result)]
        )
        assert verdicts[0] in (Verdict.APPLIED, Verdict.STALE)
    assert state(db, jobs[0]) == state(db, jobs[2]) != "running"
    assert (await actor.die()) == [jobs[1]]
    assert state(db, jobs[1]) == "ready"


@pytest.mark.sampled(4)
@every
async def test_what_people_want_of_broken_rows_still_works(world: World, db: Db, how: str) -> None:
    jobs = await three(world, db, how)
    assert await world.store.cancel(SYSTEM, jobs, "away with it") == [Cancelling.CANCELLED] * 3
    assert await world.store.replay(SYSTEM, jobs) == [True] * 3
    assert await world.store.hurry(SYSTEM, jobs) == [True] * 3
    await world.promote()
    assert await world.store.cancel(SYSTEM, jobs, "away with it") == [Cancelling.CANCELLED] * 3
    assert await world.store.purge(SYSTEM, jobs) == [True] * 3


@pytest.mark.sampled(4)
@every
async def test_the_shelves_are_kept_moving(world: World, db: Db, clock: ManualClock, how: str) -> None:
    jobs = await world.several(3, delay=1)
    spoil(db, jobs[1], how)
    clock.advance(1)
    await world.promote()
    assert [state(db, job) for job in (jobs[0], jobs[2])] == ["ready", "ready"]
    await world.store.cancel(SYSTEM, jobs, "over")
    clock.advance(10)
    await world.store.prune(SYSTEM, Retention(1, 1, DAY, DAY), PLENTY)
    assert db.execute("SELECT count(*) FROM history").fetchone() == (0,)


async def test_a_time_before_all_times_is_due(world: World, db: Db) -> None:
    job = await world.one(delay=10_000_000)
    db.execute(f"UPDATE jobs SET run_at = {-LARGEST}".encode())
    await world.promote()
    assert state(db, job) == "ready"


async def test_a_kind_that_nobody_knows_waits_and_is_pointed_out(world: World, db: Db) -> None:
    first, strange, last = await world.several(3)
    db.execute("UPDATE jobs SET kind = 'quantum' WHERE id = %s", (strange,))
    assert [one.job_id for one in await (await world.node()).claim()] == [first, last]
    assert (await world.info(strange)).state is State.READY
    assert any("quantum" in finding.text for finding in await world.store.examine() if not finding.ok)
    assert await world.store.cancel(LOCAL, [strange], "away") == [Cancelling.CANCELLED]


async def test_a_job_that_runs_under_an_unknown_node(world: World, db: Db) -> None:
    job = await world.one()
    db.execute("UPDATE jobs SET state = 'running', node = 'nobody', fence = 3, started_at = 1, tries = 1")
    info = await world.info(job)
    assert (info.state, info.node) == (State.RUNNING, "nobody")
    assert await world.store.nodes(SYSTEM) == []
    assert any("not alive" in finding.text for finding in await world.store.examine() if not finding.ok)
    assert await world.store.rescue(SYSTEM, CrashRule()) == [job]
    assert await world.state(job) is State.READY


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "change",
    [
        "error = '{\"type\": 1}'",
        "error = 'no json'",
        "result = '{'",
        "node = NULL",
        f"exit_code = {2**31 - 1}, tries = {-LARGEST}",
        f"started_at = {-LARGEST}",
        "started_at = NULL",
        "outcome = NULL",
    ],
)
async def test_history_that_makes_no_sense_is_shown_all_the_same(world: World, db: Db, change: str) -> None:
    actor = await world.node()
    strange, fine = await world.several(2)
    await actor.run(DONE, strange)
    await actor.run(DONE, fine)
    db.execute(f"UPDATE history SET {change} WHERE id = %s".encode(), (strange,))
    infos = {info.id: info for info in await world.store.find(LOCAL, JobFilter())}
    assert set(infos) == {strange, fine}
    JobView.of(infos[strange])
    assert await world.store.get(LOCAL, strange) == infos[strange]


@pytest.mark.parametrize("change", ["node = NULL", "started_at = NULL"])
async def test_a_dead_letter_that_makes_no_sense_is_replayed_or_refused(world: World, db: Db, change: str) -> None:
    actor = await world.node()
    strange, fine = await world.several(2)
    await actor.run(FATAL, strange)
    await actor.run(FATAL, fine)
    db.execute(f"UPDATE history SET {change} WHERE id = %s".encode(), (strange,))
    assert await world.store.replay(LOCAL, [strange, fine]) == [True, True]
    await world.promote()
    assert {one.job_id for one in await actor.claim()} == {strange, fine}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "change",
    [
        "roles = 'worker'", "roles = '{}'", "queues = '[]'", "queues = 'x'", 'queues = \'{"default": "many"}\'',
        f"lease = {-LARGEST}, beats = {LARGEST - 5}", "id = ''", "server = 'x'", "busy_since = 0", "tasks = '{NULL}'",
    ],
)  # fmt: skip
async def test_a_node_that_makes_no_sense_does_not_hide_the_others(world: World, db: Db, change: str) -> None:
    """The reaper looks at this list: should it fail, nobody would be taken over any more."""
    strange, fine = await world.node(), await world.node("fine")
    job = await world.one()
    await fine.take(job)
    db.execute(f"UPDATE nodes SET {change} WHERE incarnation = %s".encode(), (strange.incarnation,))
    assert fine.incarnation in {node.incarnation for node in await world.store.nodes(SYSTEM)}
    assert fine.incarnation in {node.incarnation for node in await world.store.nodes(SYSTEM, past=True)}
    assert (await fine.renew()).known
    await world.node("new")
    assert await world.store.take_over(SYSTEM, fine.incarnation, 1, CrashRule()) == [job]


@pytest.mark.parametrize("change", ["info = 'no json'", "info = '{}'", "info = ''"])
async def test_a_task_that_makes_no_sense_does_not_hide_the_others(world: World, db: Db, change: str) -> None:
    await world.node(tasks=[TaskInfo(name) for name in ("a", "b", "c")])
    db.execute(f"UPDATE tasks SET {change} WHERE name = 'b'".encode())
    assert [task.name for task in await world.store.tasks(LOCAL)] == ["a", "c"]


@pytest.mark.parametrize("change", ["data = '['", "data = '1'", "data = ''"])
async def test_an_event_that_makes_no_sense_does_not_stop_the_reader(world: World, db: Db, change: str) -> None:
    for name in ("a", "b", "c"):
        await world.node(name)
    db.execute(f"UPDATE outbox SET {change} WHERE subject = 'b'".encode())
    assert [event.subject for event in await world.store.events(SYSTEM, 0, PLENTY)] == ["a", "b", "c"]


async def test_output_of_a_job_that_was_deleted_by_hand_is_not_shown(world: World, db: Db) -> None:
    actor = await world.node()
    job = await world.one()
    await actor.say((await actor.take()).ref, 0)
    db.execute("DELETE FROM jobs")
    assert await world.store.output(LOCAL, job, Position(), 10) == []
    assert (await actor.renew()).holds == ()


async def test_a_table_that_is_gone_is_an_error_of_the_store(world: World, db: Db, backend: Postgres) -> None:
    """Whatever the server says, callers hear it as an error of rota's own."""
    backend.virgin = True  # it is of no use to other tests afterwards
    db.execute("DROP TABLE outbox")
    with pytest.raises(StoreError):
        await world.store.events(SYSTEM, 0, 1)
    with pytest.raises(StoreError):
        await world.node()

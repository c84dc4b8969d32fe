"""Rows that someone wrote straight into the tables: the broken one is set aside, everything else goes on."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from rota.clock import ManualClock
from rota.errors import StoreError
from rota.model.feedback import Feedback
from rota.model.job import JobInfo, Verdict
from rota.model.lifecycle import State
from rota.model.outcome import CrashRule, Outcome
from rota.model.principal import LOCAL, SYSTEM
from rota.model.query.fields import Sort
from rota.model.query.parse import parse
from rota.model.requirements import NO_REQUIREMENTS
from rota.model.task import TaskInfo
from rota.model.times import DAY, instant
from rota.store.sqlite import SqliteStore
from rota.store.values import Cancelling, Chunk, JobCount, JobFilter, Position, Retention, Topic
from rota.views.jobs import JobView
from tests.contracts.world import BOOM, DONE, FATAL, PLENTY, World, settled
from tests.store.sqlite.backends import SqliteMemory

LARGEST = 2**63 - 1
NOT_UTF8 = "CAST(x'ff22' AS TEXT)"
HALF = "CAST(x'e298' AS TEXT)"

# Where, and what is written there.
BROKEN = {
    "no payload": "DELETE FROM payloads WHERE seq = ?",
    "arguments that are no JSON": "UPDATE payloads SET args = '{\"a\": ' WHERE seq = ?",
    "arguments that are no object": "UPDATE payloads SET args = '[1]' WHERE seq = ?",
    "a specification that is no JSON": "UPDATE payloads SET spec = 'argv' WHERE seq = ?",
    "an empty specification": "UPDATE payloads SET spec = '' WHERE seq = ?",
    "a policy that is no JSON": "UPDATE payloads SET retry = 'often' WHERE seq = ?",
    "a policy that is no policy": 'UPDATE payloads SET retry = \'{"retries": "three"}\' WHERE seq = ?',
    "a policy that is refused": 'UPDATE payloads SET retry = \'{"retries": -1, "backoff": "soon"}\' WHERE seq = ?',
    "arguments that are no UTF-8": f"UPDATE payloads SET args = {NOT_UTF8} WHERE seq = ?",
    "a specification that is no UTF-8": f"UPDATE payloads SET spec = {HALF} WHERE seq = ?",
    "a policy that is no UTF-8": f"UPDATE payloads SET retry = {NOT_UTF8} WHERE seq = ?",
    "a key that is no UTF-8": f"UPDATE payloads SET key = {NOT_UTF8} WHERE seq = ?",
    "a task that is no UTF-8": f"UPDATE jobs SET task = {NOT_UTF8} WHERE seq = ?",
    "an owner that is no UTF-8": f"UPDATE jobs SET owner = {NOT_UTF8} WHERE seq = ?",
    "a reason that is no UTF-8": f"UPDATE jobs SET reason = {NOT_UTF8} WHERE seq = ?",
    "a task with a NUL": "UPDATE jobs SET task = 'a' || char(0) || 'b' WHERE seq = ?",
    "an empty task": "UPDATE jobs SET task = '' WHERE seq = ?",
    "a negative timeout": "UPDATE payloads SET timeout = -5 WHERE seq = ?",
    "an absurd timeout": f"UPDATE payloads SET timeout = {LARGEST} WHERE seq = ?",
    "an absurd rank": f"UPDATE jobs SET rank = {-LARGEST} WHERE seq = ?",
    "an absurd time": f"UPDATE jobs SET run_at = {LARGEST}, created_at = {-LARGEST} WHERE seq = ?",
    "an absurd expiry": f"UPDATE jobs SET expires_at = {LARGEST} WHERE seq = ?",
    "a start before its time": "UPDATE jobs SET started_at = -1 WHERE seq = ?",
}
# What the schema itself refuses.
REFUSED = {
    "an absurd fence": f"UPDATE jobs SET fence = {LARGEST} WHERE seq = ?",
    "a negative fence": "UPDATE jobs SET fence = -7 WHERE seq = ?",
    "absurdly many tries": f"UPDATE jobs SET tries = {LARGEST} WHERE seq = ?",
    "absurdly many failures": f"UPDATE jobs SET failures = {LARGEST} WHERE seq = ?",
    "absurdly many crashes": f"UPDATE jobs SET crashes = {LARGEST} WHERE seq = ?",
    "absurdly many interruptions": f"UPDATE jobs SET interruptions = {LARGEST} WHERE seq = ?",
}
every = pytest.mark.parametrize("how", BROKEN)


@pytest.fixture
def backend(tmp_path: Path, clock: ManualClock) -> SqliteMemory:
    """The code is the same as for a file, and there are many cases."""
    return SqliteMemory(tmp_path, clock)


@pytest.fixture
def db(store: SqliteStore) -> apsw.Connection:
    return store._write_side().connection


async def three(world: World, db: apsw.Connection, how: str) -> tuple[str, str, str]:
    """Three jobs in line; the one in the middle is broken."""
    first, broken, last = await world.several(3)
    spoil(db, broken, how)
    return first, broken, last


def spoil(db: apsw.Connection, job_id: str, how: str) -> None:
    spoil_by(db, BROKEN[how], seq(db, job_id))


def spoil_by(db: apsw.Connection, text: str, *values: object) -> None:
    db.execute(text, values)
    assert db.changes() == 1


@pytest.mark.parametrize("how", REFUSED)
async def test_the_schema_refuses_numbers_that_nobody_counts_to(world: World, db: apsw.Connection, how: str) -> None:
    job_id = await world.one()
    with pytest.raises(apsw.ConstraintError):
        db.execute(REFUSED[how], (seq(db, job_id),))


def seq(db: apsw.Connection, job_id: str) -> int:
    found: int = db.execute("SELECT seq FROM jobs WHERE id = ?", (job_id,)).get
    return found


def state(db: apsw.Connection, job_id: str) -> str:
    found: str = db.execute("SELECT state FROM jobs WHERE id = ?", (job_id,)).get
    return found


@every
async def test_the_others_are_claimed_in_the_same_batch(world: World, db: apsw.Connection, how: str) -> None:
    first, broken, last = await three(world, db, how)
    actor = await world.node()
    claimed = {one.job_id: one for one in await actor.claim()}
    assert {first, last} <= set(claimed)
    # What a worker can take in hand it may settle itself; the rest must be among the dead letters.
    assert state(db, broken) == ("running" if broken in claimed else "failed")
    assert await actor.claim() == [], "the broken one is not met again and again"
    assert await actor.finish(claimed[first], DONE) is Verdict.APPLIED


@every
async def test_one_claimed_ahead_does_not_keep_the_others_from_starting(
    world: World, db: apsw.Connection, how: str
) -> None:
    actor = await world.node()
    await three(world, db, how)
    claimed = await actor.claim(start=0)
    answers = await world.store.start(SYSTEM, [one.ref for one in claimed])
    assert [answer.verdict for answer in answers].count(Verdict.APPLIED) >= 2


@every
async def test_reads_still_work(world: World, db: apsw.Connection, how: str) -> None:
    jobs = await three(world, db, how)
    for _ in range(2):
        infos = {info.id: info for info in await world.store.find(SYSTEM, JobFilter())}
        assert set(infos) == set(jobs)
        for job in jobs:
            info = await world.store.get(SYSTEM, job)
            assert isinstance(info, JobInfo)
            assert info == infos[job]
            assert info.state == state(db, job)
            JobView.of(info)
        assert sum((await world.store.counts(SYSTEM)).values()) == 3
        assert await world.store.resolve(SYSTEM, jobs[1]) == [jobs[1]]
        await world.store.examine()
        await (await world.node()).claim()  # and once more, with the broken one set aside or running


@every
async def test_searches_find_it_and_the_others(world: World, db: apsw.Connection, how: str) -> None:
    jobs = await world.several(3, queue="mails")
    spoil(db, jobs[1], how)
    for end in (False, True):
        if end:
            await world.store.cancel(SYSTEM, jobs, "over")
        query = JobFilter(where=parse("-queue:other -task:x -user:nobody", 0))
        for sort in (None, Sort("id"), Sort("task"), Sort("user"), Sort("finished"), Sort("queue", descending=True)):
            one = replace(query, sort=sort)
            assert {info.id for info in await world.store.find(SYSTEM, one)} == set(jobs), sort
            found = await world.store.find(SYSTEM, replace(one, limit=1))
            assert len(found) == 1, sort
        assert await world.store.counted(SYSTEM, query) == JobCount(3)
        facets = await world.store.facets(SYSTEM, query)
        assert facets.total == JobCount(3)
        assert sum(facet.number for facet in facets.fields["task"]) == 3
        assert {"local"} <= set(await world.store.values(SYSTEM, "user", "", PLENTY)) <= {"local", '\ufffd"'}
        assert await world.store.values(SYSTEM, "queue", "m", PLENTY) == ["mails"]
        mine = {info.id for info in await world.store.find(LOCAL, JobFilter())}
        assert mine == set(jobs) - ({jobs[1]} if "owner" in how else set())


@every
async def test_what_people_want_of_it_still_works(world: World, db: apsw.Connection, how: str) -> None:
    jobs = await three(world, db, how)
    cancelled = [Cancelling.CANCELLED] * 3
    assert await world.store.cancel(SYSTEM, jobs, "away with it") == cancelled
    assert await world.store.replay(SYSTEM, jobs) == [True] * 3
    assert await world.store.hurry(SYSTEM, jobs) == [True] * 3
    await world.promote()
    assert await world.store.cancel(SYSTEM, jobs, "away with it") == cancelled
    assert await world.store.purge(SYSTEM, jobs) == [True] * 3


@every
@pytest.mark.parametrize("result", [BOOM, FATAL], ids=["retry", "fail"])
async def test_a_batch_of_endings_is_kept_but_for_the_broken_one(
    world: World, db: apsw.Connection, how: str, result: Outcome
) -> None:
    """It broke while it ran. It need not be settled well, but the others must be settled."""
    actor = await world.node()
    jobs = await world.several(3)
    claimed = await actor.claim()
    spoil(db, jobs[1], how)
    verdicts = await world.store.finish(SYSTEM, [settled(one, result) for one in claimed])
    assert verdicts[0] is verdicts[2] is Verdict.APPLIED
    assert state(db, jobs[0]) == state(db, jobs[2]) != "running"


@every
async def test_a_take_over_moves_the_others_on(world: World, db: apsw.Connection, how: str) -> None:
    actor = await world.node()
    jobs = await world.several(3)
    await actor.claim()
    spoil(db, jobs[1], how)
    moved = await world.store.take_over(SYSTEM, actor.incarnation, 0, CrashRule())
    assert moved is not None
    assert {jobs[0], jobs[2]} <= set(moved)
    assert [state(db, job) for job in (jobs[0], jobs[2])] == ["ready", "ready"]


@every
async def test_the_shelves_are_kept_moving(world: World, db: apsw.Connection, how: str) -> None:
    jobs = await world.several(3, delay=1)
    spoil(db, jobs[1], how)
    world.clock.advance(1)
    await world.promote()
    assert [state(db, job) for job in (jobs[0], jobs[2])] == ["ready", "ready"]
    await world.store.cancel(SYSTEM, jobs, "over")
    world.clock.advance(10)
    await world.store.prune(SYSTEM, Retention(1, 1, DAY, DAY), PLENTY)
    assert db.execute("SELECT count(*) FROM jobs").get == 0


async def test_what_is_set_aside_says_why_and_is_told(world: World, db: apsw.Connection) -> None:
    _, broken, _ = await three(world, db, "no payload")
    rung: list[int] = []
    end = world.store.listen(frozenset({Topic.NEWS}), lambda: rung.append(1))
    await (await world.node()).claim()
    end()
    info = await world.info(broken)
    assert (info.state, instant(info.finished_at), info.node) == (State.FAILED, world.clock.now(), None)
    assert info.reason is not None
    assert info.error is not None
    assert "broken" in info.reason
    assert rung, "a job has ended"
    told = [(event.kind, event.subject) for event in await world.store.events(SYSTEM, 0, PLENTY)]
    assert ("job.failed", broken) in told, "like every other dead letter"


async def test_what_was_set_aside_can_be_mended_and_replayed(world: World, db: apsw.Connection) -> None:
    _, broken, _ = await three(world, db, "no payload")
    actor = await world.node()
    await actor.claim()
    place = seq(db, broken)
    db.execute(
        "INSERT INTO payloads (seq, spec, digest, args, retry) VALUES (?, '{\"argv\":[\"true\"]}', 'd', '{}', '{}')",
        (place,),
    )
    assert await world.store.replay(LOCAL, [broken]) == [True]
    await world.promote()
    claimed = await actor.take(broken)
    assert await actor.finish(claimed) is Verdict.APPLIED


async def test_a_large_batch_with_a_few_broken_rows(world: World, db: apsw.Connection) -> None:
    jobs = await world.several(200)
    for place in (0, 77, 199):
        spoil(db, jobs[place], "no payload")
    claimed = [one.job_id for one in await (await world.node()).claim()]
    assert claimed == [job for place, job in enumerate(jobs) if place not in (0, 77, 199)]


async def test_a_kind_that_nobody_knows_waits_and_is_pointed_out(world: World, db: apsw.Connection) -> None:
    first, strange, last = await world.several(3)
    spoil_by(db, "UPDATE jobs SET kind = 'quantum' WHERE id = ?", strange)
    assert [one.job_id for one in await (await world.node()).claim()] == [first, last]
    assert (await world.info(strange)).state is State.READY
    finding = next(finding for finding in await world.store.examine() if not finding.ok)
    assert "quantum" in finding.text
    assert await world.store.cancel(LOCAL, [strange], "away") == [Cancelling.CANCELLED]


# -- other tables -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "error = '{\"type\": 1}'",
        f"error = {NOT_UTF8}",
        "result = '{'",
        f"result = {NOT_UTF8}",
        f"node = {NOT_UTF8}",
        f"exit_code = {LARGEST}, number = {-LARGEST}",
        f"started_at = {-LARGEST}, finished_at = {LARGEST}",
    ],
)
async def test_history_that_makes_no_sense_is_shown_all_the_same(
    world: World, db: apsw.Connection, change: str
) -> None:
    actor = await world.node()
    strange, fine = await world.several(2)
    await actor.run(DONE, strange)
    await actor.run(DONE, fine)
    spoil_by(db, f"UPDATE attempts SET {change} WHERE job = ?", seq(db, strange))
    infos = {info.id: info for info in await world.store.find(LOCAL, JobFilter())}
    assert set(infos) == {strange, fine}
    assert len(infos[strange].attempts) == 1
    assert await world.store.get(LOCAL, strange) == infos[strange]
    JobView.of(infos[strange])


@pytest.mark.parametrize(
    "change",
    [
        "roles = 'worker'",
        "roles = '{}'",
        "queues = '[]'",
        'queues = \'{"default": "many"}\'',
        f"queues = {NOT_UTF8}",
        f"id = {NOT_UTF8}",
        f"lease = {-LARGEST}, beats = {LARGEST}",
        f"version = {NOT_UTF8}",
    ],
)
async def test_a_node_that_makes_no_sense_does_not_hide_the_others(
    world: World, db: apsw.Connection, change: str
) -> None:
    """The reaper looks at this list: should it fail, nobody would be taken over any more."""
    strange, fine = await world.node(), await world.node("fine")
    job_id = await world.one()
    await fine.take(job_id)
    spoil_by(db, f"UPDATE nodes SET {change} WHERE incarnation = ?", strange.incarnation)
    assert fine.incarnation in {node.incarnation for node in await world.store.nodes(SYSTEM)}
    assert fine.incarnation in {node.incarnation for node in await world.store.nodes(SYSTEM, past=True)}
    assert (await fine.renew()).known
    await world.node("new")
    assert await world.store.take_over(SYSTEM, fine.incarnation, 1, CrashRule()) == [job_id]


@pytest.mark.parametrize("change", ["info = 'no json'", "info = '{}'", f"info = {NOT_UTF8}"])
async def test_a_task_that_makes_no_sense_does_not_hide_the_others(
    world: World, db: apsw.Connection, change: str
) -> None:
    tasks = [TaskInfo(name) for name in ("a", "b", "c")]
    await world.node(tasks=tasks)
    spoil_by(db, f"UPDATE tasks SET {change} WHERE name = 'b'")
    assert [task.name for task in await world.store.tasks(LOCAL) if task.name != "b"] == ["a", "c"]


@pytest.mark.parametrize("text", ["no json", "[", '{"flow": {"a": 1}}', '{"flow": 7}', '{"labels": 7}', "7", NOT_UTF8])
async def test_requirements_that_make_no_sense_stop_no_claim(world: World, db: apsw.Connection, text: str) -> None:
    await world.store.set_feedback(LOCAL, "default", Feedback())
    actor = await world.node()
    job, other = await world.several(2, task="t")
    value = text if text is NOT_UTF8 else "'" + text + "'"
    spoil_by(db, f"UPDATE jobs SET requirements = {value} WHERE id = ?", job)
    assert {one.job_id for one in await actor.claim()} == {job, other}
    assert (await world.info(job)).requirements == NO_REQUIREMENTS


@pytest.mark.parametrize("change", ["data = '['", "data = '1'", f"data = {NOT_UTF8}", f"subject = {NOT_UTF8}"])
async def test_an_event_that_makes_no_sense_does_not_stop_the_reader(
    world: World, db: apsw.Connection, change: str
) -> None:
    for name in ("a", "b", "c"):
        await world.node(name)
    spoil_by(db, f"UPDATE outbox SET {change} WHERE subject = 'b'")
    events = await world.store.events(SYSTEM, 0, PLENTY)
    assert [event.subject for event in events if event.subject in ("a", "c")] == ["a", "c"]


async def test_output_of_a_stream_that_makes_no_sense(world: World, db: apsw.Connection) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.take()
    for number in range(3):
        await actor.say(claimed.ref, number)
    spoil_by(db, f"UPDATE output SET stream = {NOT_UTF8} WHERE number = 1")
    chunks: list[Chunk] = await world.store.output(LOCAL, job_id, Position(), 10)
    assert {0, 2} <= {chunk.number for chunk in chunks}


async def test_a_table_that_is_gone_is_an_error_of_the_store(world: World, db: apsw.Connection) -> None:
    """Whatever SQLite says, callers hear it as an error of rota's own."""
    db.execute("DROP TABLE outbox")
    with pytest.raises(StoreError):
        await world.store.events(SYSTEM, 0, 1)
    with pytest.raises(StoreError):
        await world.node()

"""What the store does with its crowd: whatever moves jobs, tells of them or cleans up behind them, once each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from rota.model.job import Kind, NewJob, Ref, Spec
from rota.model.lifecycle import JobEvent
from rota.model.outcome import CrashRule, Ending, Problem, Settlement
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.progress import Progress
from rota.model.times import DAY, HOUR, MINUTE, aware
from rota.store.carriers import hints, log_retention, sealing
from rota.store.carriers import orders as changes
from rota.store.carriers import output as read_output
from rota.store.hints import ScheduledJob
from rota.store.log_store import ChunkCursor, LogRetention, NewSegment, RawScan, Sealing, SegmentScan
from rota.store.postgres import log_search, nodes, orders, reads, work
from rota.store.postgres.database import Unit
from rota.store.postgres.scan_floor import ScanFloor
from rota.store.values import Chunk, JobFilter, Note, Position, Retention
from tests.store.postgres.crowd import (
    AHEAD,
    CLOCK,
    COUNTS,
    DEAD,
    DUE,
    ENDED,
    EXPIRED,
    NOW,
    READY,
    RUNNING,
    SCHEDULED,
    uid,
    uids,
)
from tests.store.postgres.plans import pruned

BATCH = 100
KINDS = tuple(Kind)
RETENTION = Retention(DAY, DAY, MINUTE, DAY)


def new(number: int, **changes: Any) -> NewJob:
    return NewJob(uid(99, number), "t1", Spec.function("t1"), **changes)


def settlement(sort: int, number: int, event: JobEvent, ending: Ending, **more: Any) -> Settlement:
    problem = Problem("E", "boom")
    return Settlement(uid(sort, number), 1, event, ending, error=problem, reason="boom", **more)


def batch(event: JobEvent, ending: Ending, **more: Any) -> list[Settlement]:
    return [settlement(RUNNING, number, event, ending, **more) for number in range(1, BATCH + 1)]


def refs(sort: int, fence: int = 1) -> list[Ref]:
    return [Ref(job, fence) for job in uids(sort, *range(1, BATCH + 1))]


async def claim(unit: Unit) -> None:
    wants = {f"q{n}": BATCH for n in range(7)}
    assert len(await work.claim(unit, "inc1", wants, KINDS, wants, ScanFloor(CLOCK))) == 7 * BATCH


async def claim_one(unit: Unit) -> None:
    assert len(await work.claim(unit, "inc1", {"q3": 1}, KINDS, {"q3": 1}, ScanFloor(CLOCK))) == 1


async def lonely(jobs: int, unit: Unit) -> None:
    """Claims for a node whose only functions rank behind all others of their queue."""
    await unit.connection.execute("UPDATE rota.nodes SET tasks = '{own, a, b, c}' WHERE incarnation = 'inc1'")
    own = [NewJob(uid(98, n), "own", Spec.function("own"), queue="q4", priority=9) for n in range(jobs)]
    await orders.submit(unit, LOCAL, [own], DAY)
    claimed = await work.claim(unit, "inc1", {"q4": jobs}, (Kind.FUNCTION,), {"q4": jobs}, ScanFloor(CLOCK))
    assert [one.job_id for one in claimed] == [job.id for job in own]


async def claim_nothing(unit: Unit) -> None:
    assert await work.claim(unit, "inc1", {"none": 500}, KINDS, {"none": 500}, ScanFloor(CLOCK)) == []


async def succeed(unit: Unit) -> None:
    verdicts = await work.finish(unit, [
        Settlement(job, 1, JobEvent.SUCCEED, Ending.SUCCEEDED, result="1")
        for job in uids(RUNNING, *range(1, BATCH + 1))
    ])  # fmt: skip
    assert set(verdicts) == {"applied"}


async def finish_again(unit: Unit) -> None:
    again = [
        Settlement(job, 1, JobEvent.SUCCEED, Ending.SUCCEEDED, result="1") for job in uids(ENDED, *range(1, BATCH + 1))
    ]
    assert set(await work.finish(unit, again)) == {"already"}


async def fail(unit: Unit) -> None:
    assert set(await work.finish(unit, batch(JobEvent.FAIL, Ending.FAILED, failures=1))) == {"applied"}


async def retry(unit: Unit) -> None:
    assert set(await work.finish(unit, batch(JobEvent.RETRY, Ending.FAILED, failures=1, delay=5))) == {"applied"}


async def renew(unit: Unit) -> None:
    news = await nodes.renew(unit, "inc1", False, None, ScanFloor(CLOCK), ScanFloor(CLOCK))
    assert len(news.holds) == COUNTS[RUNNING] // 20


async def promote(unit: Unit) -> None:
    moved, _ = await nodes.promote(unit, BATCH, 0, ScanFloor(CLOCK))
    assert moved == 2 * BATCH


async def promote_all(unit: Unit) -> None:
    """So that there is nothing left to do, and the next instant has to be found."""
    moved, upcoming = await nodes.promote(unit, 2_000, 0, ScanFloor(CLOCK))
    assert moved == COUNTS[DUE] + COUNTS[EXPIRED]
    assert upcoming is not None


async def promote_by_id(unit: Unit) -> None:
    some = [*range(1, BATCH + 1)]
    others = [*uids(SCHEDULED, *some), *uids(READY, *some), *uids(RUNNING, *some), *uids(ENDED, *some), uid(99, 1)]
    assert await nodes.promote_jobs(unit, [*uids(DUE, *some), *others]) == BATCH


async def due_times(unit: Unit) -> None:
    some = [*range(1, BATCH + 1)]
    others = [*uids(READY, *some), *uids(RUNNING, *some), *uids(ENDED, *some), uid(99, 1)]
    assert len(await hints.due_times(unit, [*uids(SCHEDULED, *some), *others])) == BATCH


async def scheduled_page(unit: Unit) -> None:
    page = await hints.scheduled(unit, ScheduledJob(NOW, ""), NOW + 2 * HOUR, 10 * BATCH)
    assert len(page) == 10 * BATCH
    assert page == sorted(page)


async def scheduled_page_behind(unit: Unit) -> None:
    """In the middle of the table, at a job."""
    page = await hints.scheduled(unit, ScheduledJob(NOW + HOUR + 500_000, uid(SCHEDULED, 500_000)), NOW + DAY, 1_000)
    assert page[0] == (NOW + HOUR + 500_001, uid(SCHEDULED, 500_001))
    assert len(page) == 10 * BATCH


async def take_over(unit: Unit) -> None:
    moved = await nodes.departures.take_over(unit, "inc0", 0, CrashRule())
    assert moved is not None
    assert len(moved) == COUNTS[RUNNING] // 20 + COUNTS[AHEAD]


async def list_nodes(unit: Unit) -> None:
    assert len(await nodes.nodes(unit, SYSTEM, True, ())) == 20


async def say(unit: Unit) -> None:
    chunks = [Chunk(j, 1, n, NOW, "log", b"", {9: 5}.get(n)) for j in uids(RUNNING, *range(1, 11)) for n in range(10)]
    verdicts = await work.append_output(unit, chunks)
    assert (verdicts.count("applied"), verdicts.count("already")) == (80, 20)  # type: ignore[arg-type]


async def say_late(unit: Unit) -> None:
    """Output of a dead node, which another brings."""
    jobs = uids(DEAD, *range(1, 11))
    await unit.connection.execute("UPDATE rota.attempts SET outcome = 'crashed' WHERE job = ANY ($1::uuid[])", jobs)
    chunks = [Chunk(j, 0, n, NOW, "log", b"", {9: 5}.get(n)) for j in jobs for n in range(10)]
    verdicts = await work.append_output(unit, chunks, late=True)
    assert verdicts.count("applied") == len(chunks)  # type: ignore[arg-type]


async def say_too_much(unit: Unit) -> None:
    """Their user has a quota for output, with room for half of it."""
    await unit.connection.execute(
        "INSERT INTO rota.users (name, created_at, created_by, output_allowed) VALUES ('local', 0, '', $1)", 10 * 4
    )
    chunks = [Chunk(j, 1, n, NOW, "log", b"x") for j in uids(RUNNING, *range(1, 11)) for n in range(2, 10)]
    await work.append_output(unit, chunks)
    marks = "SELECT count(*) FROM rota.output WHERE job = ANY ($1::uuid[]) AND stream = 'cut'"
    assert await unit.connection.fetchval(marks, uids(RUNNING, *range(1, 11))) == 5


async def repeat(unit: Unit) -> None:
    """One is known, and one is new."""
    values = {"owner": "local", "step": 0, "now": unit.now}
    for key, known in (("r7", 1), ("new", 0)):
        assert len(await unit.rows("kept_repeats", owner="local", key=key, now=unit.now)) == known
        (held,) = await unit.rows("hold_repeat", key=key, **values) or [None]
        assert (held is not None and held["digest"] == "d") == bool(known)
    more = {"route": "route", "digest": "d", "content": b"x", "life": DAY}
    await unit.run("keep_repeat", key="new", **values, **more)


async def note(unit: Unit) -> None:
    """Half of them have told something before."""
    half = Progress(0.5, "half", aware(NOW))
    notes = [Note(job, 1, 9, half, "{}") for job in uids(RUNNING, *range(951, 951 + BATCH))]
    assert set(await work.note(unit, notes)) == {"applied"}


async def succeed_saved(unit: Unit) -> None:
    chosen = [
        Settlement(job, 1, JobEvent.SUCCEED, Ending.SUCCEEDED, saved=True)
        for job in uids(RUNNING, *range(951, 951 + BATCH))
    ]
    assert set(await work.finish(unit, chosen)) == {"applied"}


async def start(unit: Unit) -> None:
    assert {one.verdict for one in await work.start(unit, refs(AHEAD))} == {"applied"}


async def hand_back(unit: Unit) -> None:
    assert set(await work.hand_back(unit, refs(AHEAD))) == {"applied"}


async def hand_back_cancelled(unit: Unit) -> None:
    await changes.cancel(unit, SYSTEM, uids(AHEAD, *range(1, 11)), "no")
    await work.hand_back(unit, refs(AHEAD)[:10])


async def submit(unit: Unit) -> None:
    await orders.submit(unit, LOCAL, [[new(n) for n in range(20)]], DAY)


async def submit_keyed(unit: Unit) -> None:
    jobs = [new(n, key=f"new{n}") for n in range(10)]
    await orders.submit(unit, LOCAL, [jobs, jobs], DAY)


async def cancel(unit: Unit) -> None:
    some = range(1, 21)
    chosen = [*uids(SCHEDULED, *some), *uids(READY, *some), *uids(RUNNING, *some), *uids(ENDED, *some)]
    answers = await changes.cancel(unit, SYSTEM, chosen, "no")
    assert [answers.count(kind) for kind in ("cancelled", "requested", "ended")] == [40, 20, 20]  # type: ignore[arg-type]


async def replay(unit: Unit) -> None:
    assert all(await orders.replay(unit, SYSTEM, uids(DEAD, *range(1, 51)), again=False))


async def hurry(unit: Unit) -> None:
    assert all(await changes.hurry(unit, SYSTEM, uids(SCHEDULED, *range(1, 51))))


async def purge(unit: Unit) -> None:
    assert all(await orders.purge(unit, SYSTEM, uids(ENDED, *range(1, 51))))


async def prune(unit: Unit) -> None:
    """Row by row. The clock is moved on, so that all of it is old."""
    CLOCK.jump(30 * DAY // 1_000_000)
    try:
        assert await pruned(unit, RETENTION, 50) >= 200
    finally:
        CLOCK.jump(-30 * DAY // 1_000_000)


async def trim(unit: Unit) -> None:
    await unit.run("trim_output", id=uid(ENDED, 7), limit=300)


async def rescue(unit: Unit) -> None:
    assert await nodes.departures.rescue(unit, CrashRule()) == []


async def events(unit: Unit) -> None:
    assert len(await reads.events(unit, SYSTEM, 49_000, 100)) == 100


async def tally(unit: Unit) -> None:
    until = await unit.value("tally_until", after=0, settled=0, limit=100, now=NOW * 2)
    assert await unit.rows("ended_tallies", after=until - 1, until=until, sees=None, queue=None, task=None)


async def look_for_keys(unit: Unit) -> None:
    assert await unit.value("keys_known_of", owner="local", keys=["none"]) == 0


async def get(unit: Unit) -> None:
    for job in (uid(SCHEDULED, 5), uid(RUNNING, 5), uid(ENDED, 5), uid(DEAD, 5)):
        assert None not in await reads.get_many(unit, SYSTEM, [job])


async def output(unit: Unit) -> None:
    found = await read_output.output(unit, SYSTEM, uid(ENDED, 705), Position(), 100)
    assert [chunk.number for chunk in found] == [1, 0, 1], "a mark, for the body is no segment"
    assert await unit.value("owns_job", id=uid(ENDED, 5), sees="local")


async def seal(unit: Unit) -> None:
    page = await sealing.runs(unit, ChunkCursor(NOW, uid(ENDED, 0), 0, 0), -DAY, BATCH)  # behind those of running jobs
    found = await sealing.read_runs(unit, page.runs, 1_000)
    segment = NewSegment(
        id=uid(99, 1), owner="local", task="t1", lasting=False, first_at=1, last_at=2, lines=1, size=1,
        low=Position(1, 0), high=Position(1, 1), jobs=bytes(16), words=b"", body=b"",
    )  # fmt: skip
    assert await sealing.seal(unit, [Sealing(segment, found.runs)]) == [True]
    assert len(found.chunks) == BATCH


async def rewrite(unit: Unit) -> None:
    await sealing.list_purged(unit, [uid(ENDED, 705)])
    purged = await sealing.purged_output(unit, BATCH)
    assert [one.id for one in purged.segments] == [uid(ENDED, 705)]
    assert await sealing.seal(unit, [Sealing(None, segments=[uid(ENDED, 705)])], purged.jobs) == [True]
    assert len(await sealing.small_segments(unit, 2)) == 2


async def prune_output(unit: Unit) -> None:
    await log_retention.past(unit, False, -3 * DAY, BATCH)
    await log_retention.past(unit, True, -3 * DAY, BATCH)
    kept = LogRetention(DAY, DAY, -DAY, 1000)
    assert await log_retention.prune_output(unit, kept, BATCH) > BATCH


async def search(unit: Unit) -> None:
    scan = SegmentScan(since=NOW, words=(), limit=10, look=100)
    page = await log_search.segments(unit, LOCAL, scan)
    assert (len(page.segments), page.looked) == (10, 10)
    assert len((await log_search.segments(unit, SYSTEM, scan)).segments) == 10
    assert len((await log_search.segments(unit, LOCAL, SegmentScan(jobs=(uid(ENDED, 705),)))).segments) == 1
    for newest_first in (False, True):
        of_jobs = RawScan(jobs=tuple(uids(ENDED, 5, 6)), newest_first=newest_first)
        raw = await log_search.unsealed(unit, LOCAL, of_jobs)
        rest = await log_search.unsealed(unit, LOCAL, replace(of_jobs, after=ChunkCursor(0, uid(ENDED, 5), 1, 0)))
        assert (len(raw.chunks), len(rest.chunks)) == (4, 0 if newest_first else 4)


async def resolve(unit: Unit) -> None:
    assert await reads.resolve(unit, LOCAL, uid(ENDED, 5)[:-1]) == uids(ENDED, 1, 2, 3)


def looking(who: Principal, found: int, **query: Any) -> Callable[[Unit], Awaitable[None]]:
    async def look(unit: Unit) -> None:
        assert len((await reads.page(unit, who, JobFilter(**query))).jobs) == found

    return look

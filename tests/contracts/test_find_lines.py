"""Searches of output: what a look at every line finds, newest first, wherever the lines are kept; nothing of others."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from rota.control.sealer import Rules
from rota.errors import InvalidInput
from rota.lines.levels import level_of
from rota.model.job import JobInfo, Membership
from rota.model.principal import SYSTEM, Principal
from rota.model.query.evaluate import OutputLine, fits
from rota.model.query.fields import Searched
from rota.model.query.parse import parse
from rota.model.query.tree import EVERYTHING, Condition, How, Term
from rota.model.requirements import Requirements
from rota.store.base import Store
from rota.store.found_lines import LONGEST_LINE, FoundLine, LinePage, LinePlace, LineQuery
from rota.store.graph import WorkflowFilter
from rota.store.line_search import blocks, sources
from rota.store.line_search import page as line_search
from rota.store.line_search.plan import planned
from rota.store.line_search.turns import OF_USER, TOGETHER
from rota.store.log_store import RawPage, RawScan
from rota.store.values import CUT, Chunk, JobFilter, Position
from tests.contracts.test_sealing import changed, printed, seal, sealings
from tests.contracts.world import BOOM, DONE, World
from tests.model.query.conditions import conditions

ANN, BOB = Principal("ann"), Principal("bob")
TASKS = ("mail", "mail.send", "Mail.SEND", "a b")
LINES = (
    b"mail sent to 7\n", b"Mail.Send 100%\r\n", b"ERROR a b: \xff refused\n", b"level=warning a_b\n", b"\n", b"axb\r",
    "é É mail.send\n".encode(), b'WARNING say "x"\n', b"x" * 300 + b"\n", b"no end",
)  # fmt: skip
STREAMS = ("stdout", "stdout", "stderr", "log")


def drawn(count: int) -> list[Condition]:
    """Conditions, always the same ones."""
    found: list[Condition] = []

    @settings(
        max_examples=count, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(conditions(Searched.OUTPUT))
    def draw(condition: Condition) -> None:
        found.append(condition)

    draw()
    return found


async def populate(world: World, count: int, chance: random.Random) -> None:
    """Jobs of two users that print, some sealed, some not, some running."""
    node = await world.node("host-1")
    flow = Membership(world.chance.job_id(world.clock.now()), "mail")
    for number in range(count):
        who = chance.choice((ANN, ANN, BOB))
        more = {"workflow": flow, "job_name": "load"} if who is ANN and chance.random() < 0.3 else {}
        labels = Requirements(labels=chance.choice(((), ("mail",))))
        job = await world.one(who, task=chance.choice(TASKS), args='{"x": 7}', requirements=labels, **more)
        claimed = await node.take(job)
        at = 0
        for _ in range(chance.randrange(6)):
            body = b"".join(chance.choice(LINES) for _ in range(chance.randrange(4)))
            cut = chance.randrange(len(body) + 1)
            stream = chance.choice(STREAMS)
            for part in (body[:cut], body[cut:]):
                await node.say(claimed.ref, at, part, stream)
                at += 1
                world.clock.advance(chance.choice((0, 0, 0.02)))
        if chance.random() < 0.85:
            await node.finish(claimed, chance.choice((DONE, BOOM)))
        world.clock.advance(chance.choice((0, 1, 90)))
        if number % 7 == 6:
            await seal(world)


def lines_of(chunks: Sequence[Chunk]) -> Iterator[tuple[LinePlace, str, bytes]]:
    """Each line of each stream of each attempt, with its place and stream."""
    streams: dict[tuple[int, str], list[Chunk]] = {}
    for chunk in sorted(chunks, key=lambda one: (one.fence, one.number)):
        if chunk.stream != CUT:
            streams.setdefault((chunk.fence, chunk.stream), []).append(chunk)
    for (fence, stream), parts in streams.items():
        places = [(chunk, offset) for chunk in parts for offset in range(len(chunk.body))]
        begin = 0
        for line in b"".join(chunk.body for chunk in parts).splitlines(keepends=True):
            chunk, offset = places[begin]
            place = LinePlace(chunk.written_at, chunk.job_id, fence, chunk.number, offset)
            yield place, stream, line.rstrip(b"\r\n")
            begin += len(line)


Known = list[tuple[JobInfo, str | None, LinePlace, OutputLine]]


async def all_lines(world: World, who: Principal) -> Known:
    """By a look at the output of every job."""
    found: Known = []
    for info in await world.store.find(who, JobFilter(limit=1000)):
        names = {}
        if info.workflow is not None:
            known = await world.store.workflows(who, WorkflowFilter(ids=(info.workflow,)))
            names = {one.id: one.name for one in known}
        attempts = {one.fence: one.number for one in info.attempts}
        for place, stream, body in lines_of(await world.store.output(who, info.id, Position(), 10_000)):
            text = body.decode("utf-8", "replace")
            line = OutputLine(text, place.at, stream, attempts[place.fence], level_of(text.encode(), stream))
            found.append((info, names.get(info.workflow or ""), place, line))
    return sorted(found, key=lambda one: one[2], reverse=True)


async def walked(world: World, who: Principal, query: LineQuery) -> list[FoundLine]:
    """All pages."""
    found: list[FoundLine] = []
    while True:
        page = await world.store.find_lines(who, query)
        assert len(page.lines) <= query.limit
        found += page.lines
        if page.last is None:
            assert page.progress.examined == page.progress.of
            return found
        assert query.place is None or page.last < query.place, "it comes on"
        query = replace(query, place=page.last)


def places(lines: Sequence[FoundLine]) -> list[LinePlace]:
    return [one.place for one in lines]


async def search(world: World, who: Principal, text: str, before: int = 0, after: int = 0) -> list[FoundLine]:
    where = parse(text, world.clock.now(), Searched.OUTPUT)
    return await walked(world, who, LineQuery(where=where, before=before, after=after))


@pytest.mark.parametrize(
    ("seed", "limit"),
    [(1, 1000), pytest.param(2, 7, marks=pytest.mark.slow), pytest.param(3, 40, marks=pytest.mark.slow)],
)
async def test_every_condition_finds_what_a_look_at_every_line_finds(
    world: World, seed: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if limit == 40:
        monkeypatch.setattr(blocks, "ROOM", 200)
        monkeypatch.setattr(sources, "MANY", 1)
    chance = random.Random(seed)
    await populate(world, 30, chance)
    some = chance.sample(drawn(160), 50)
    fitting = 0
    for who in (ANN, SYSTEM):
        known = await all_lines(world, who)
        assert len(known) > 40
        for condition in [EVERYTHING, *some]:
            expected = [place for info, name, place, line in known if fits(condition, info, name, line)]
            found = await walked(world, who, LineQuery(where=condition, limit=limit))
            assert places(found) == expected, condition
            fitting += 0 < len(found) < len(known)
    assert fitting > 10, "the conditions choose"


async def test_a_line_says_where_it_is_from(world: World) -> None:
    node = await world.node()
    at = world.clock.now()
    job = (await printed(world, node, b"one\nWARNING: two\n", b"th", b"ree", who=ANN, task="mail.send")).job_id
    await printed(world, node, b"two of bob's\n", who=BOB)
    for _ in range(2):  # unsealed, then sealed
        (two,) = await search(world, ANN, "two task:mail.* at>-1h", before=1, after=5)
        assert (two.job_id, two.attempt, two.task, two.owner) == (job, 1, "mail.send", "ann")
        assert (two.stream, two.text, two.level, two.written_at) == ("stdout", "WARNING: two", "warning", at)
        assert ([one.text for one in two.before], [one.text for one in two.after]) == (["one"], ["three"])
        assert [one.text for one in await search(world, ANN, "three")] == ["three"]
        assert await search(world, BOB, "two task:mail.*") == []
        assert len(await search(world, SYSTEM, "two")) == 2
        assert await search(world, Principal("eve"), "*") == []
        await seal(world)


async def test_context_beyond_a_segment(world: World) -> None:
    """Output of an attempt that is in several segments, and in part unsealed."""
    node = await world.node()
    claimed = await node.take(await world.one(ANN))
    for number in range(40):
        await node.say(claimed.ref, number, b"line %d\n" % number)
    await node.finish(claimed)
    await seal(world, rules=Rules(target=60, settled=0, wait=0))
    assert world.backend.contents("output", "segments")["segments"]
    assert len(world.backend.contents("segments")["segments"]) > 3
    for number in (0, 7, 8, 9, 20, 39):
        (found,) = await search(world, ANN, f'"line {number}"', before=3, after=3)
        around = [f"line {n}" for n in range(number - 3, number + 4) if 0 <= n < 40]
        assert [one.text for one in (*found.before, found, *found.after)] == around


async def test_lines_of_purged_jobs_are_gone_at_once(world: World) -> None:
    node = await world.node()
    jobs = [(await printed(world, node, b"needle\n", who=ANN)).job_id for _ in range(3)]
    await seal(world)
    await world.store.purge(ANN, jobs[:1])
    assert {one.job_id for one in await search(world, ANN, "needle")} == set(jobs[1:])


async def test_output_that_is_sealed_during_a_search_is_found_once(world: World) -> None:
    node = await world.node()
    for _ in range(6):
        await printed(world, node, b"needle\n" * 3, b"needle", who=ANN)
        world.clock.advance(1)
    query = LineQuery(where=parse("needle", 0, Searched.OUTPUT), limit=5)
    page = await world.store.find_lines(ANN, query)
    found = list(page.lines)
    while page.last is not None:
        await seal(world, rules=Rules(target=20, settled=0, wait=0))
        page = await world.store.find_lines(ANN, replace(query, place=page.last))
        found += page.lines
    assert len(found) == len(set(places(found))) == 6 * 4
    assert places(found) == sorted(places(found), reverse=True)


class SealsBetween:
    """A store of which all output is sealed after the first look at what is not."""

    def __init__(self, world: World) -> None:
        self._world, self._sealed = world, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world.store, name)

    async def unsealed(self, who: Principal, scan: RawScan) -> RawPage:
        page = await self._world.store.unsealed(who, scan)
        if not self._sealed:
            self._sealed = True
            await seal(self._world)
        return page


async def test_output_that_is_sealed_while_a_page_is_read_is_found_once(world: World) -> None:
    node = await world.node()
    for _ in range(4):
        await printed(world, node, b"needle\n", who=ANN)
        world.clock.advance(600)
    between: Any = SealsBetween(world)
    for _ in range(2):
        page = await line_search.page(between, ANN, LineQuery(where=parse("needle", 0, Searched.OUTPUT)))
        assert len(page.lines) == len(set(places(page.lines))) == 4
        assert page.last is None


async def test_much_that_is_not_sealed_is_read_in_windows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "WINDOW", 50)
    monkeypatch.setattr(sources, "CHUNKS", 2)
    node = await world.node()
    claimed = [await node.take(await world.one(ANN)) for _ in range(2)]
    for number in range(20):
        await node.say(claimed[number % 2].ref, number // 2, b"needle %d\n" % number)
        world.clock.advance(1)
    assert [one.text for one in await search(world, ANN, "needle")] == [f"needle {n}" for n in range(19, -1, -1)]


async def test_a_long_line_is_cut_and_says_so(world: World) -> None:
    await printed(world, await world.node(), b"x" * (LONGEST_LINE + 7) + b" needle\n", who=ANN)
    (found,) = await search(world, ANN, "needle")
    assert (len(found.body), found.more) == (LONGEST_LINE, 14)


@pytest.mark.sampled
async def test_a_page_of_long_lines_is_bounded(world: World) -> None:
    """A thousand lines with fifty lines of context on both sides would be gigabytes."""
    node = await world.node()
    claimed = await node.take(await world.one(ANN))
    for number in range(60):
        await node.say(claimed.ref, number, b"%d " % number + b"x" * 60_000 + b"\n")
    await node.finish(claimed)
    for _ in range(2):
        query = LineQuery(before=10, after=10, limit=1000)
        page = await world.store.find_lines(ANN, query)
        found = list(page.lines)
        assert len(found) < 15
        while page.last is not None:
            page = await world.store.find_lines(ANN, replace(query, place=page.last))
            found += page.lines
        assert [one.number for one in found] == list(range(59, -1, -1))
        assert {len(one.body) for one in (*found, *found[30].before)} == {LONGEST_LINE}
        await seal(world)


async def test_a_damaged_segment_is_counted_and_passed(world: World) -> None:
    node = await world.node()
    await printed(world, node, b"needle\n", who=ANN)
    (sealing,) = await sealings(world)
    await world.store.seal(SYSTEM, [changed(sealing, body=b"not a segment")])
    other = await printed(world, node, b"needle\n", who=ANN)
    page = await world.store.find_lines(ANN, LineQuery(where=parse("needle", 0, Searched.OUTPUT)))
    assert [one.job_id for one in page.lines] == [other.job_id]
    assert page.progress.unreadable == 1


@pytest.mark.parametrize(
    ("query", "what"),
    [
        (LineQuery(limit=0), "limit"),
        (LineQuery(limit=1001), "limit"),
        (LineQuery(before=-1), "before"),
        (LineQuery(after=51), "after"),
        (LineQuery(where=Term("colour", How.IS, "red")), "query"),
    ],
)
async def test_wrong_queries_are_refused(world: World, query: LineQuery, what: str) -> None:
    with pytest.raises(InvalidInput, match=what):
        await world.store.find_lines(ANN, query)


async def test_few_searches_read_at_a_time_and_one_user_has_not_all_turns(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await printed(world, await world.node(), b"one\ntwo\n", who=ANN)
    page, inside, met, go = line_search.page, list[str](), asyncio.Event(), asyncio.Event()

    async def held(store: Store, who: Principal, query: LineQuery) -> LinePage:
        inside.append(who.user)
        if len(inside) == TOGETHER:
            met.set()
        await go.wait()
        return await page(store, who, query)

    monkeypatch.setattr(line_search, "page", held)
    monkeypatch.setattr(line_search, "SECONDS", 600)  # a page ends early on a slow machine
    users = (ANN,) * 20 + (BOB,) * 5
    searches = [asyncio.create_task(world.store.find_lines(who, LineQuery())) for who in users]
    await asyncio.wait_for(met.wait(), 30)
    assert sorted(inside) == ["ann"] * OF_USER + ["bob"] * OF_USER
    searches[0].cancel()  # its turn goes to the next one of its user
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await searches[0]
    assert [len((await one).lines) for one in searches[1:]] == [2] * 19 + [0] * 5


async def test_the_turn_of_a_caller_who_has_gone_ends_with_the_work_in_its_thread(world: World) -> None:
    begun, go = threading.Event(), threading.Event()

    def work() -> bool:
        begun.set()
        return go.wait(30)

    reader = sources.Reader(world.store, ANN, blocks.Wanted(planned(EVERYTHING, None), 1))
    gone = asyncio.create_task(reader.beside(work))
    await asyncio.to_thread(begun.wait, 30)
    gone.cancel()
    done, _ = await asyncio.wait([gone], timeout=0)
    assert not done
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await gone

"""A tail tells every line that is printed from its beginning on: whole, in order, once, to those who may see it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rota.clients import line_tail, tail_output
from rota.clients.line_tail import LineTail
from rota.clients.tail_places import MOST_STREAMS, read_place
from rota.errors import StoreUnavailable
from rota.model.job import Claimed
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.query.fields import Searched
from rota.model.query.parse import parse
from rota.store.base import Store
from rota.store.found_lines import FoundLine
from rota.store.values import CUT, Chunk
from tests.contracts.admission import labelled
from tests.contracts.test_sealing import seal
from tests.contracts.world import FATAL, Actor, World

ANN, BOB = Principal("ann"), Principal("bob")
PATIENT = 1_000.0  # seconds of silence: a line waits for its end
AT_ONCE = 0.0


class Reader:
    """A tail that is read when the test says so."""

    def __init__(self, world: World, query: str = "", who: Principal = LOCAL, **options: Any) -> None:
        where = parse(query, world.clock.now(), Searched.OUTPUT)
        self.tail = LineTail(options.pop("store", world.store), who, where, **{"silence": PATIENT, **options})
        self.places: list[str] = []

    async def lines(self) -> list[FoundLine]:
        """All that is there."""
        found, more = [], True
        while more:
            told, more = await self.tail.look()
            found += [line for line, _ in told]
            self.places += [place for _, place in told]
        return found

    async def texts(self) -> list[str]:
        return [line.text for line in await self.lines()]


async def reading(world: World, query: str = "", who: Principal = LOCAL, **options: Any) -> Reader:
    """A tail that has begun."""
    reader = Reader(world, query, who, **options)
    assert await reader.texts() == []
    return reader


async def running(world: World, actor: Actor, who: Principal = LOCAL, **changes: Any) -> Claimed:
    return await actor.take(await world.one(who, **changes))


async def test_whole_lines_of_several_jobs_from_now_on(world: World) -> None:
    actor = await world.node()
    one = await running(world, actor, task="t")
    await actor.say(one.ref, 0, b"early\nbeg")
    reader = await reading(world)
    assert await reader.texts() == []
    two = await running(world, actor)
    await actor.say(one.ref, 1, b"un\nnext\r\nlast\r")
    await actor.say(two.ref, 0, b"other\n", "stderr")
    await actor.say(one.ref, 2, b"\nWARNING behind")
    lines = await reader.lines()
    assert [line.text for line in lines if line.job_id == one.job_id] == ["begun", "next", "last"]
    assert [line.text for line in lines if line.job_id == two.job_id] == ["other"]
    first = next(line for line in lines if line.text == "begun")
    assert (first.number, first.offset, first.stream, first.task, first.owner) == (0, 6, "stdout", "t", "local")
    assert (first.attempt, first.fence, first.level) == (1, one.fence, None)
    await actor.say(one.ref, 3, b" it\n")
    (last,) = await reader.lines()
    assert (last.text, last.level, last.number, last.offset) == ("WARNING behind it", "warning", 2, 1)


async def test_streams_of_an_attempt_are_divided_apart(world: World) -> None:
    actor = await world.node()
    reader = await reading(world)
    job = await running(world, actor)
    said = [(b"out ", "stdout"), (b"err ", "stderr"), (b"1\nou", "stdout"), (b"2\n", "stderr"), (b"t\n", "stdout")]
    for number, (body, stream) in enumerate(said):
        await actor.say(job.ref, number, body, stream)
    assert await reader.texts() == ["out 1", "err 2", "out"]


async def test_a_line_without_an_end_is_told_at_the_end_of_its_attempt_or_after_a_silence(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_tail, "ASK_AFTER", 0.0)
    actor = await world.node()
    reader = await reading(world)
    job = await running(world, actor)
    await actor.say(job.ref, 0, b"no end")
    assert await reader.texts() == []
    await actor.finish(job)
    assert await reader.texts() == ["no end"]
    hasty = await reading(world, silence=AT_ONCE)
    other = await running(world, actor)
    await actor.say(other.ref, 0, b"password: ")
    assert await hasty.texts() == ["password: "]
    await actor.say(other.ref, 1, b"\nwelcome\n")
    assert await hasty.texts() == ["welcome"], "the late end of a line is no line"


async def test_conditions(world: World) -> None:
    actor = await world.node()
    queries = {
        "": {"a WARNING", "b refused", "a noise", "b other"},
        "task:t": {"a WARNING", "a noise"},
        "-task:t refused": {"b refused"},
        "level>=warning OR refused": {"a WARNING", "b refused"},
        "task:t OR other": {"a WARNING", "a noise", "b other"},
        "label:x stream:stdout": {"b refused", "b other"},
        "stream:stderr": set[str](),
        "attempt:1": {"a WARNING", "b refused", "a noise", "b other"},
        "task:nothing": set(),
    }
    readers = {query: await reading(world, query) for query in queries}
    one = await running(world, actor, task="t")
    two = await running(world, actor, requirements=labelled("x"))
    readers[f"id:{two.job_id}"] = await reading(world, f"id:{two.job_id}")
    readers[f"id:{two.job_id[-6:]}"] = await reading(world, f"id:{two.job_id[-6:]}")
    queries |= {query: {"b refused", "b other"} for query in list(readers)[-2:]}
    await actor.say(one.ref, 0, b"a WARNING\na noise\n")
    await actor.say(two.ref, 0, b"b refused\nb other\n")
    for query, expected in queries.items():
        assert set(await readers[query].texts()) == expected, query


async def test_only_what_one_may_see(world: World) -> None:
    actor = await world.node()
    readers = {who: await reading(world, who=who) for who in (ANN, BOB, SYSTEM)}
    hers = await running(world, actor, ANN)
    await actor.say(hers.ref, 0, b"hers\n")
    assert await readers[ANN].texts() == ["hers"]
    assert await readers[BOB].texts() == []
    assert await readers[SYSTEM].texts() == ["hers"]
    await actor.finish(hers)
    world.clock.advance(60)
    await seal(world)
    assert await readers[BOB].texts() == []


async def test_a_deleted_job_says_nothing(world: World) -> None:
    actor = await world.node()
    reader = await reading(world)
    job = await running(world, actor)
    await actor.say(job.ref, 0, b"gone\nand gone")
    await actor.finish(job)
    assert await world.store.purge(LOCAL, [job.job_id]) == [True]
    assert await reader.texts() == []
    world.clock.advance(60)
    await seal(world)
    assert await reader.texts() == []


async def test_a_line_of_a_job_that_is_deleted_meanwhile_is_dropped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_tail, "ASK_AFTER", 0.0)
    actor = await world.node()
    reader = await reading(world)
    job = await running(world, actor)
    await actor.say(job.ref, 0, b"told\nnot yet")
    assert await reader.texts() == ["told"]
    await actor.finish(job)
    await world.store.purge(LOCAL, [job.job_id])
    assert await reader.texts() == []


@pytest.mark.parametrize("seen", [0, 1, 3])
async def test_what_was_sealed_before_it_was_seen(world: World, seen: int) -> None:
    """The reader is slow: output is sealed, and there is more that is not."""
    actor = await world.node()
    old = await running(world, actor)
    await actor.say(old.ref, 0, b"of before\n")
    await actor.finish(old)
    world.clock.advance(1)
    reader = await reading(world)
    world.clock.advance(1)
    job = await running(world, actor)
    expected = list[str]()
    for number in range(3):
        if number == seen:
            assert await reader.texts() == expected
            expected = []
        await actor.say(job.ref, number, b"line %d\n" % number)
        expected.append(f"line {number}")
    if seen == 3:
        assert await reader.texts() == expected
        expected = []
    await actor.finish(job)
    world.clock.advance(60)
    await seal(world)
    later = await running(world, actor)
    await actor.say(later.ref, 0, b"later\n")
    assert sorted(await reader.texts()) == sorted([*expected, "later"])
    world.clock.advance(60)
    assert await reader.texts() == []


async def test_an_attempt_that_was_sealed_in_part(world: World) -> None:
    """A job that runs again has sealed attempts and one that runs."""
    actor = await world.node()
    reader = await reading(world)
    world.clock.advance(1)
    expected = []
    job = await running(world, actor)
    for number in range(40):
        await actor.say(job.ref, number, b"first %d\n" % number)
        expected.append(f"first {number}")
    await actor.finish(job, FATAL)
    world.clock.advance(60)
    await seal(world)
    assert await world.store.replay(LOCAL, [job.job_id]) == [True]
    await world.promote()
    again = await actor.take(job.job_id)
    await actor.say(again.ref, 0, b"second\n")
    lines = await reader.lines()
    assert [line.text for line in lines if line.attempt == 1] == expected
    assert [line.text for line in lines if line.attempt == 2] == ["second"]


async def test_cut_output_is_a_mark(world: World) -> None:
    actor = await world.node()
    reader = await reading(world, "wanted")
    job = await running(world, actor)
    await actor.say(job.ref, 0, b"wanted\nhalf a wanted")
    mark = Chunk(job.job_id, job.fence, 5, world.clock.now(), CUT, b"\n[rota: 10 bytes are left out]\n", 2)
    await world.store.append_output(SYSTEM, [mark])
    await actor.say(job.ref, 6, b"wanted too\n")
    lines = await reader.lines()
    assert [(line.stream, line.text) for line in lines] == [
        ("stdout", "wanted"), ("stdout", "half a wanted"), (CUT, "[rota: 10 bytes are left out]"),
        ("stdout", "wanted too"),
    ]  # fmt: skip


async def test_numbers_that_are_left_out_are_no_gap(world: World) -> None:
    actor = await world.node()
    reader = await reading(world)
    job = await running(world, actor)
    for number in (0, 1, 3, 7):
        await actor.say(job.ref, number, b"%d\n" % number)
    assert await reader.texts() == ["0", "1", "3", "7"]


async def test_pages_of_all_sizes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PLACES": 3, "AHEAD": 2, "CHUNKS": 2, "READ": 18}.items():
        monkeypatch.setattr(line_tail, name, value)
    actor = await world.node()
    reader = await reading(world)
    chance, expected = random.Random(3), dict[str, list[str]]()
    for round_ in range(3):
        jobs = {job.job_id: job for job in [await running(world, actor) for _ in range(4)]}
        numbers = dict.fromkeys(jobs, 0)
        for _ in range(60):
            job = chance.choice(list(jobs))
            await actor.say(jobs[job].ref, numbers[job], b"%d\n" % numbers[job])
            expected.setdefault(job, []).append(str(numbers[job]))
            numbers[job] += 1
            world.clock.advance(chance.choice([0, 0.1]))
        lines = [] if round_ == 1 else await reader.lines()
        for job in jobs:
            assert [one.text for one in lines if one.job_id == job] == ([] if round_ == 1 else expected.pop(job))
        for claimed in jobs.values():
            await actor.finish(claimed)
        if round_ == 1:
            world.clock.advance(60)
            await seal(world)
            lines = await reader.lines()
            for job in jobs:
                assert [one.text for one in lines if one.job_id == job] == expected.pop(job)


async def test_a_tail_forgets_old_attempts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_output, "MOST_KNOWN", 2)
    actor = await world.node()
    reader = await reading(world)
    steady = await running(world, actor)
    for number in range(6):
        world.clock.advance(60)  # beyond each look back
        other = await running(world, actor)
        await actor.say(other.ref, 0, b"other %d\n" % number)
        await actor.finish(other)
        await actor.say(steady.ref, number, b"%d and half " % number if number % 2 else b"\n%d\n" % number)
        await reader.texts()
    assert len(reader.tail._output._attempts) <= 3
    world.clock.advance(60)
    await seal(world)
    assert await reader.texts() == [], "what was told and forgotten does not come again"


async def test_lines_that_wait_for_their_ends_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_output, "MOST_HELD", 1000)
    actor = await world.node()
    reader = await reading(world)
    job = await running(world, actor)
    await actor.say(job.ref, 0, b"x" * 900)
    assert await reader.texts() == []
    await actor.say(job.ref, 1, b"y" * 900)
    assert await reader.texts() == ["x" * 900 + "y" * 900]


class Flaky:
    """A store that is away at some calls."""

    def __init__(self, store: Store) -> None:
        self._store, self._chance = store, random.Random(5)
        self.away = 0.0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in ("unsealed", "segments", "get_many", "output", "workflows"):
            return found

        async def call(*given: Any) -> Any:
            if self._chance.random() < self.away:
                raise StoreUnavailable("it restarts")
            return await found(*given)

        return call


async def test_a_store_that_goes_away_costs_no_line(world: World) -> None:
    actor = await world.node()
    flaky = Flaky(world.store)
    reader = await reading(world, store=flaky)
    flaky.away = 0.5
    job, told = await running(world, actor), list[str]()
    for number in range(60):
        world.clock.advance(1)
        await actor.say(job.ref, number, b"%d\n" % number)
        told += await reader.texts()
        if number == 40:
            await actor.finish(job)
            world.clock.advance(60)
            await seal(world)
            job = await running(world, actor)
    flaky.away = 0.0
    told += await reader.texts()
    assert sorted(told, key=int) == [str(number) for number in range(60)]


async def test_a_look_that_finds_nothing_is_one_query(world: World) -> None:
    counting = Counting(world.store)
    reader = await reading(world, store=counting)
    world.clock.advance(1)
    counting.calls = 0
    await reader.lines()
    assert counting.calls == 1


class Counting:
    def __init__(self, store: Store) -> None:
        self._store, self.calls = store, 0

    def __getattr__(self, name: str) -> Any:
        self.calls += name not in ("now", "listen")
        return getattr(self._store, name)


# -- places ----------------------------------------------------------------------------------------------------------
async def resumed(world: World, place: str, **options: Any) -> Reader:
    return Reader(world, after=read_place(place), places=True, **options)


@pytest.mark.parametrize("wait", [0, 60])
async def test_a_reader_goes_on_behind_every_line(world: World, wait: int) -> None:
    """From whatever line on, in another process: the rest, each line once. After a wait all of it is sealed."""
    actor = await world.node()
    reader = await reading(world, places=True)
    world.clock.advance(20)
    jobs = [await running(world, actor) for _ in range(2)]
    for number in range(3):
        await actor.say(jobs[0].ref, number * 2, b"a%d\nb%d\r\nc%d " % ((number,) * 3))
        await actor.say(jobs[1].ref, number, b"d%d\r" % number)
        await actor.say(jobs[0].ref, number * 2 + 1, b"e%d\n" % number, "stderr")
        world.clock.advance(3)
    told = await reader.texts()
    for job in jobs:
        await actor.finish(job)
    world.clock.advance(wait)
    if wait:
        await seal(world)
    for index, place in enumerate(reader.places):
        other = await resumed(world, place, silence=AT_ONCE)
        rest = [line for line in await other.texts() if line != "c2 "]
        assert sorted(rest) == sorted(told[index + 1 :]), (index, place)
        assert other.tail.gap is None


async def test_a_line_that_was_told_before_its_end_goes_on_behind_its_place(world: World) -> None:
    actor = await world.node()
    reader = await reading(world, places=True, silence=AT_ONCE)
    world.clock.advance(20)
    job = await running(world, actor)
    await actor.say(job.ref, 0, b"half ")
    assert await reader.texts() == ["half "]
    await actor.say(job.ref, 1, b"a line\n")
    other = await resumed(world, reader.places[-1])
    assert await other.texts() == ["a line"]


async def test_places_that_can_not_be_gone_on_from_exactly(world: World) -> None:
    actor = await world.node()
    reader = await reading(world, places=True)
    actor.queues["default"] = MOST_STREAMS + 2
    jobs = [await running(world, actor) for _ in range(MOST_STREAMS + 1)]
    for job in jobs:
        await actor.say(job.ref, 0)
    assert len(await reader.texts()) == MOST_STREAMS + 1
    full = await resumed(world, reader.places[-1])
    assert "may come again" in (full.tail.gap or "")
    world.clock.advance(3601)
    old = await resumed(world, reader.places[0])
    assert "more than an hour old" in (old.tail.gap or "")
    assert await old.texts() == []


@pytest.mark.parametrize("behind", [1, 4, 20])
async def test_writers_that_commit_in_another_order_than_they_began(world: World, behind: int) -> None:
    """A chunk becomes visible in front of others that were told long ago."""
    actor = await world.node()
    world.clock.advance(100)
    reader = await reading(world, places=True)
    jobs = [await running(world, actor) for _ in range(3)]
    world.clock.advance(30)
    await actor.say(jobs[0].ref, 0, b"begun later\n")
    assert await reader.texts() == ["begun later"]
    world.clock.jump(-behind)
    await actor.say(jobs[1].ref, 0, b"one\n")
    await actor.say(jobs[1].ref, 1, b"two\n")
    await actor.say(jobs[2].ref, 0, b"three\n")
    world.clock.jump(behind)
    world.clock.advance(6)  # a look further back is due
    assert sorted(await reader.texts()) == ["one", "three", "two"]
    await actor.say(jobs[1].ref, 2, b"four\n")
    await actor.say(jobs[0].ref, 1, b"five\n")
    assert sorted(await reader.texts()) == ["five", "four"]
    assert await reader.texts() == []

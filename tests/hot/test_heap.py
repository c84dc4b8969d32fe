"""The heap of due jobs, on every kind of lane."""

from __future__ import annotations

import asyncio
import random

import pytest

from rota.hot.lane import Added, Due, Lane, Look
from tests.hot.lanes import NOON, Make, due, opened

HOSTILE = ["", " ", "a b\r\nc", "*1\r\n$4\r\nPING\r\n", "\0", "}{", "inf", "+inf", "epoch x", "é🜚", "x" * 9_999, "((1"]


async def test_an_empty_heap_has_no_epoch_and_nothing_upcoming(lane: Lane) -> None:
    assert await lane.look(NOON, 10) == Look("", [], None)
    assert await lane.page_due(Due("", 0), 10) == []


async def test_what_is_due_is_told_in_order_and_stays(lane: Lane) -> None:
    await lane.add_due(due(("c", 3), ("a", 1), ("b", 2), ("d", 4)))
    for _ in range(2):
        assert await lane.look(NOON + 2_000_000, 10) == Look("", due(("a", 1), ("b", 2)), NOON + 3_000_000)
    assert await lane.look(NOON + 1_999_999, 10) == Look("", due(("a", 1)), NOON + 2_000_000)
    assert await lane.look(NOON + 9_000_000, 3) == Look("", due(("a", 1), ("b", 2), ("c", 3)), NOON + 4_000_000)
    assert await lane.look(NOON + 9_000_000, 4) == Look("", due(("a", 1), ("b", 2), ("c", 3), ("d", 4)), None)
    assert await lane.look(NOON + 9_000_000, 0) == Look("", [], NOON + 1_000_000)
    assert await lane.look(NOON, 10) == Look("", [], NOON + 1_000_000)


async def test_times_are_kept_to_the_microsecond(lane: Lane) -> None:
    times = [NOON + place for place in range(5)] + [2**53 - 1, 0, 1]
    await lane.add_due([Due(f"job{at}", at) for at in times])
    assert [entry.at for entry in (await lane.look(2**53, 100)).due] == sorted(times)


async def test_an_entry_that_is_earlier_than_all_is_told_so(lane: Lane) -> None:
    assert (await lane.add_due(due(("a", 10), ("b", 12)))).earliest
    assert not (await lane.add_due(due(("c", 10)))).earliest
    assert not (await lane.add_due(due(("c", 11), ("d", 20)))).earliest
    assert (await lane.add_due(due(("d", 21), ("e", 9)))).earliest
    assert (await lane.add_due(due(("e", 8)))).earliest
    assert not (await lane.add_due(due(("e", 8)))).earliest
    assert not (await lane.add_due([])).earliest


async def test_a_job_stands_once_and_moves(lane: Lane) -> None:
    await lane.add_due(due(("a", 1), ("b", 2)))
    await lane.add_due(due(("a", 3)))
    await lane.add_due(due(("b", 9), ("b", 4)))
    assert (await lane.look(NOON + 9_000_000, 9)).due == due(("a", 3), ("b", 4))


async def test_entries_that_were_moved_are_not_dropped(lane: Lane) -> None:
    await lane.add_due(due(("a", 1), ("b", 2), ("c", 3)))
    seen = (await lane.look(NOON + 9_000_000, 9)).due
    await lane.add_due(due(("b", 5)))
    await lane.drop_due([*seen, *due(("unknown", 1))])
    assert (await lane.look(NOON + 9_000_000, 9)).due == due(("b", 5))
    await lane.drop_due([])


async def test_the_epoch_is_told_by_all_that_ask(lane: Lane) -> None:
    await lane.begin_epoch("first")
    assert await lane.look(NOON, 9) == Look("first", [], None)
    assert await lane.add_due(due(("a", 1))) == Added(True, "first")
    assert await lane.add_due([]) == Added(False, "first")
    await lane.begin_epoch("after")
    assert await lane.add_due(due(("b", 2))) == Added(False, "after")
    assert await lane.look(NOON + 9_000_000, 9) == Look("after", due(("a", 1), ("b", 2)), None)
    await lane.drop_due(due(("a", 1), ("b", 2)))
    assert await lane.look(NOON, 9) == Look("after", [], None)
    assert (await lane.state()).epoch == "after"


async def test_pages_hold_each_entry_once_also_when_many_have_the_same_time(lane: Lane) -> None:
    entries = [Due(f"{number:04}", NOON + number // 700) for number in range(2_000)] + [Due("é", NOON), Due("A", NOON)]
    await lane.add_due(random.Random(1).sample(entries, len(entries)))
    await lane.begin_epoch("one")
    found: list[Due] = []
    while page := await lane.page_due(found[-1] if found else Due("", 0), 300):
        assert len(page) <= 300
        found += page
    assert found == sorted(entries, key=lambda entry: (entry.at, entry.job.encode()))
    assert await lane.page_due(Due("", 0), 0) == []


async def test_a_page_goes_on_after_an_entry_that_is_gone(lane: Lane) -> None:
    await lane.add_due(due(("a", 1), ("b", 1), ("c", 1), ("d", 2)))
    await lane.drop_due(due(("b", 1)))
    assert await lane.page_due(*after("b", 1)) == due(("c", 1), ("d", 2))
    await lane.add_due(due(("a", 5)))
    assert await lane.page_due(*after("a", 1)) == due(("c", 1), ("d", 2), ("a", 5))
    assert await lane.page_due(*after("d", 2)) == due(("a", 5))
    assert await lane.page_due(*after("a", 5)) == []


def after(job: str, second: int) -> tuple[Due, int]:
    return due((job, second))[0], 10


@pytest.mark.parametrize("count", [999, 1_000, 1_001, 5_500])
async def test_batches_of_any_size(lane: Lane, count: int) -> None:
    entries = [Due(f"job{number}", NOON + 5_000_000 - number) for number in range(count)]
    assert (await lane.add_due(entries)).earliest
    assert (await lane.look(NOON + 9_000_000, 10_000)).due == sorted(entries, key=lambda entry: entry.at)
    assert not (await lane.add_due(entries)).earliest
    await lane.drop_due(entries[1:])
    assert (await lane.look(NOON + 9_000_000, 10_000)).due == entries[:1]


async def test_hostile_ids_are_ids(lane: Lane) -> None:
    await lane.begin_epoch("a b\n")
    entries = [Due(job, NOON + place) for place, job in enumerate(HOSTILE)]
    await lane.add_due(entries)
    assert await lane.look(NOON + 100, 100) == Look("a b\n", entries, None)
    assert await lane.page_due(Due("", 0), 100) == entries
    await lane.drop_due(entries)
    assert await lane.look(NOON + 100, 100) == Look("a b\n", [], None)


async def test_two_lanes_see_one_heap(make: Make) -> None:
    async with opened(make(), make()) as (one, other):
        await one.add_due(due(("a", 1)))
        assert not (await other.add_due(due(("b", 2)))).earliest
        assert (await one.look(NOON + 9_000_000, 9)).due == due(("a", 1), ("b", 2))


async def test_a_lane_behaves_as_its_model_whatever_the_order_of_calls(lane: Lane) -> None:
    chance, model = random.Random(7), dict[str, int]()
    for _ in range(300):
        jobs = [f"job{chance.randrange(40)}" for _ in range(chance.randrange(1, 6))]
        entries = [Due(job, NOON + chance.randrange(60)) for job in jobs]
        first = min(model.values(), default=None)
        if chance.random() < 0.6:
            latest = dict(entries)
            added = await lane.add_due(entries)
            assert added.earliest == (first is None or min(latest.values()) < first)
            model |= latest
        else:
            await lane.drop_due(entries)
            model = {job: at for job, at in model.items() if (job, at) not in entries}
        until, limit = NOON + chance.randrange(60), chance.randrange(20)
        stands = sorted((Due(job, at) for job, at in model.items()), key=lambda entry: (entry.at, entry.job))
        wanted = [entry for entry in stands if entry.at <= until][:limit]
        rest = stands[len(wanted) :]
        assert await lane.look(until, limit) == Look("", wanted, rest[0].at if rest else None)


async def test_calls_at_once_get_their_own_answers(lane: Lane) -> None:
    await lane.add_due([Due(f"job{number}", NOON + number) for number in range(100)])
    looks = await asyncio.gather(*(lane.look(NOON + number, 1_000) for number in range(100)))
    assert [len(look.due) for look in looks] == list(range(1, 101))

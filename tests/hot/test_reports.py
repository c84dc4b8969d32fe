"""The latest news of running jobs, on every kind of lane."""

from __future__ import annotations

import pytest

from rota.clock import ManualClock
from rota.hot.batches import weight
from rota.hot.lane import Lane, Report
from rota.hot.local import LocalLane, LocalServer
from rota.hot.redis import RedisLane
from tests.hot.lanes import PATIENT, STORE, Make, opened
from tests.hot.test_heap import HOSTILE
from tests.servers.postgres import wait_for
from tests.servers.valkey import Valkey

MUCH = 1 << 30
BYTES = bytes(range(256)) + b"\r\n$-1\r\n"
KEYS = f"rota:{{{STORE}}}:"


def reported(job: str, fence: int = 1, number: int = 1, content: bytes = b"news") -> Report:
    return Report(job, (fence, number), content)


async def test_reports_come_back_in_the_order_of_the_jobs(lane: Lane) -> None:
    one, other = reported("a", 3, 4, BYTES), reported("b", 1, 0, b"")
    await lane.report([one, other], 60, MUCH)
    assert await lane.reports(["b", "none", "a", "b"]) == [other, None, one, other]
    assert await lane.reports([]) == []
    await lane.report([], 60, MUCH)
    assert (await lane.state()).reports == 2


@pytest.mark.parametrize("older", [(2, 5), (2, 4), (1, 99), (0, 0)])
async def test_a_version_that_is_not_later_never_replaces(lane: Lane, older: tuple[int, int]) -> None:
    kept = reported("a", 2, 5)
    await lane.report([kept], 60, MUCH)
    await lane.report([Report("a", older, b"old")], 60, MUCH)
    assert await lane.reports(["a"]) == [kept]


@pytest.mark.parametrize("later", [(2, 6), (3, 0), (10, 1), (2, 10), (2, 2**53 - 1), (2**52, 0)])
async def test_a_later_version_replaces(lane: Lane, later: tuple[int, int]) -> None:
    await lane.report([reported("a", 2, 5)], 60, MUCH)
    await lane.report([Report("a", later, b"new"), reported("a", 1, 1)], 60, MUCH)
    assert await lane.reports(["a"]) == [Report("a", later, b"new")]


async def test_what_was_written_least_recently_leaves_first(lane: Lane) -> None:
    each = weight(reported("a"))
    for job in "abc":
        await lane.report([reported(job)], 60, 3 * each)
    await lane.report([reported("a", 1, 2)], 60, 3 * each)  # the latest of all now
    await lane.report([reported("d")], 60, 3 * each)
    found = await lane.reports(list("abcd"))
    assert [one.job for one in found if one] == ["a", "c", "d"]
    await lane.report([reported("a", 1, 1)], 60, 3 * each)  # refused, and so not written
    await lane.report([reported("e"), reported("f")], 60, 3 * each)
    assert [one.job for one in await lane.reports(list("abcdef")) if one] == ["d", "e", "f"]
    await lane.report([reported("g")], 60, each)
    assert [one.job for one in await lane.reports(list("defg")) if one] == ["g"]
    assert (await lane.state()).reports == 1


async def test_a_report_beyond_the_bound_drives_no_others_out(lane: Lane) -> None:
    most = 5 * weight(reported("a"))
    await lane.report([reported("a"), reported("b")], 60, most)
    await lane.report([reported("b", 2, 2, bytes(most))], 60, most)
    assert await lane.reports(["a", "b"]) == [reported("a"), None]
    await lane.report([reported("b", 2, 3)], 60, most)
    assert await lane.reports(["a", "b"]) == [reported("a"), reported("b", 2, 3)]


async def test_batches_of_any_size(lane: Lane) -> None:
    given = [reported(f"job{number}", 1, number) for number in range(2_500)]
    await lane.report(given, 60, MUCH)
    assert await lane.reports([one.job for one in given]) == given


async def test_hostile_ids_and_contents(lane: Lane) -> None:
    given = [reported(job, content=BYTES * place) for place, job in enumerate(["total", "=total", *HOSTILE])]
    await lane.report(given, 60, MUCH)
    assert await lane.reports([one.job for one in given]) == given


# -- lives -----------------------------------------------------------------------------------------------------------
async def test_a_local_report_ends_with_its_life() -> None:
    clock = ManualClock()
    async with opened(LocalLane(LocalServer(clock))) as (lane,):
        await lane.report([reported("a")], 10, MUCH)
        clock.advance(6)
        await lane.report([reported("b")], 10, MUCH)
        clock.jump(-3600)
        clock.advance(4)
        assert await lane.reports(["a", "b"]) == [None, reported("b")]
        await lane.report([reported("a", 0, 0)], 10, MUCH)  # nothing is known of a later one any more
        assert await lane.reports(["a"]) == [reported("a", 0, 0)]


async def test_what_ended_is_struck_from_the_books(server: Valkey) -> None:
    async with opened(RedisLane(server.url(), PATIENT)) as (lane,):
        await lane.report([reported("long")], 60, MUCH)
        await lane.report([reported(f"job{number}") for number in range(20)], 0.001, MUCH)
        wait_for(lambda: server.call("EXISTS", f"{KEYS}report:job19") == 0)
        await lane.report([reported(f"new{number}") for number in range(30)], 60, MUCH)
        kept = [reported("long"), *(reported(f"new{number}") for number in range(30))]
        assert (await lane.state()).reports == len(kept)
        assert total(server) == sum(map(weight, kept))


async def test_the_books_end_after_the_reports(server: Valkey) -> None:
    async with opened(RedisLane(server.url(), PATIENT)) as (lane,):
        await lane.report([reported("a")], 60, MUCH)
        await lane.report([reported("b")], 1, MUCH)
        names = ("report:a", "order", "sizes")
        report, *books = server.calls(*(("PTTL", f"{KEYS}{name}") for name in names))
        assert all(report + 500 < book <= 61_000 for book in books)
        await lane.report([reported("a", 2)], 1e12, MUCH)  # longer than any server counts


async def test_two_lanes_see_the_same_reports(make: Make) -> None:
    async with opened(make(), make()) as (one, other):
        await one.report([reported("a")], 60, MUCH)
        assert await other.reports(["a"]) == [reported("a")]


def total(server: Valkey) -> int:
    return int(server.call("HGET", f"{KEYS}sizes", "total"))

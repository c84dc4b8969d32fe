"""Keys of ours that others wrote, changed or deleted: nothing is believed that can't be read, and all of it heals."""

from __future__ import annotations

import pytest

from rota.hot.batches import weight
from rota.hot.lane import Due, HotRefused
from rota.hot.redis import RedisLane
from tests.hot.lanes import NOON, PATIENT, STORE, due, opened
from tests.hot.test_reports import KEYS, MUCH, reported, total
from tests.servers.valkey import Valkey


async def test_foreign_entries_are_told_dropped_and_paged(server: Valkey) -> None:
    async with opened(RedisLane(server.url(), PATIENT)) as (lane,):
        foreign: list[tuple[str, bytes]] = [("1.75", b"\xff\xfe"), ("3", b""), ("-4.5", b"minus"), ("1e300", b"late")]
        for score, job in foreign:
            server.call("ZADD", f"rota:{{{STORE}}}:due", score, job)
        seen = (await lane.look(2**53, 9)).due
        assert seen == [Due("minus", -5), Due("\udcff\udcfe", 1), Due("", 3)]
        pages: list[Due] = []
        while page := await lane.page_due(pages[-1] if pages else Due("", 0), 1):
            pages += page
        assert [entry.job for entry in pages] == ["\udcff\udcfe", "", "late"]
        await lane.drop_due([*seen, *pages])
        assert (await lane.state()).entries == 0


async def test_a_key_of_another_kind_is_refused(server: Valkey) -> None:
    async with opened(RedisLane(server.url(), PATIENT)) as (lane,):
        server.call("SET", f"rota:{{{STORE}}}:due", "x")
        for call in (lane.look(NOON, 9), lane.add_due(due(("a", 1))), lane.begin_epoch("x"), lane.state()):
            with pytest.raises(HotRefused, match="a key below rota: holds something else"):
                await call


@pytest.mark.parametrize(
    "harm",
    [
        ("DEL", f"{KEYS}order"),
        ("DEL", f"{KEYS}sizes"),
        ("HDEL", f"{KEYS}sizes", "total"),
        ("HSET", f"{KEYS}sizes", "total", "much"),
        ("HDEL", f"{KEYS}sizes", "=a"),
        ("ZADD", f"{KEYS}order", 1, "b", 1, "foreign"),
        ("SET", f"{KEYS}order", "no set"),
        ("SET", f"{KEYS}sizes", "no hash"),
    ],
)
async def test_books_that_were_harmed_begin_anew(server: Valkey, harm: tuple[str, ...]) -> None:
    each = weight(reported("a"))
    async with opened(RedisLane(server.url(), PATIENT)) as (lane,):
        await lane.report([reported("a"), reported("b")], 60, 3 * each)
        server.call(*harm)
        await lane.report([reported("c"), reported("d")], 60, 3 * each)
        assert await lane.reports(list("abcd")) == [None, None, reported("c"), reported("d")]
        assert (total(server), server.call("ZCARD", f"{KEYS}order")) == (2 * each, 2)


async def test_reports_of_others_are_none_and_are_replaced(server: Valkey) -> None:
    async with opened(RedisLane(server.url(), PATIENT)) as (lane,):
        server.calls(
            ("SET", f"{KEYS}report:a", b"\xff\xff"),
            ("RPUSH", f"{KEYS}report:b", "x"),
            ("SET", f"{KEYS}report:c", "1 x y"),
        )
        assert await lane.reports(list("abc")) == [None, None, None]
        given = [reported(job) for job in "abc"]
        await lane.report(given, 60, MUCH)
        assert await lane.reports(list("abc")) == given

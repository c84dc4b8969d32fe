"""Output on its way into the store."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from typing import Any, cast

from rota.errors import InvalidInput, StoreUnavailable
from rota.logs.capture import CURRENT, Handler, captured
from rota.logs.shipper import LARGEST_BATCH, LARGEST_CHUNK, Shipper
from rota.model.job import Ref, Verdict
from rota.store.base import Store
from rota.store.values import CUT, Chunk
from rota.telemetry.events import Bus

REF = Ref("job", 1)


class Shelf:
    """The one verb of a store that the shipper uses, with the faults a test wants."""

    def __init__(self, failures: int = 0) -> None:
        self.appends: list[list[Chunk]] = []
        self.failures = failures
        self.asked, self.appended = asyncio.Event(), asyncio.Event()

    async def append_output(self, who: Any, chunks: Sequence[Chunk]) -> list[Verdict]:
        self.asked.set()
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("away")
        self.appends.append(list(chunks))
        self.appended.set()
        await asyncio.sleep(0)
        return [Verdict.APPLIED] * len(chunks)

    def now(self) -> int:
        return 0

    def kept(self, ref: Ref = REF) -> list[Chunk]:
        """What a store would have by now."""
        kept: dict[int, Chunk] = {}
        for chunk in (chunk for append in self.appends for chunk in append if chunk.job_id == ref.job_id):
            if chunk.since is not None:
                kept = {number: one for number, one in kept.items() if not chunk.since <= number <= chunk.number}
            kept.setdefault(chunk.number, chunk)
        return [kept[number] for number in sorted(kept)]

    def text(self) -> bytes:
        return b"".join(chunk.body for chunk in self.kept())


def shipper(shelf: Shelf, limit: int = 1 << 20) -> Shipper:
    return Shipper(cast(Store, shelf), limit, Bus())


async def test_lines_of_one_stream_become_one_chunk_and_numbers_count_up() -> None:
    shelf = Shelf()
    ship = shipper(shelf)
    sink = ship.open(REF)
    for stream, body in (("stdout", b"a\n"), ("stdout", b"b\n"), ("stderr", b"c\n"), ("stdout", b"d")):
        sink.write(stream, body)
    await shelf.appended.wait()
    sink.write("stdout", b"e")
    await ship.close(sink)
    chunks = [chunk for append in shelf.appends for chunk in append]
    assert [(c.number, c.stream, c.body) for c in chunks] == [
        (0, "stdout", b"a\nb\n"),
        (1, "stderr", b"c\n"),
        (2, "stdout", b"d"),
        (3, "stdout", b"e"),
    ]


async def test_large_output_goes_in_pieces() -> None:
    shelf = Shelf()
    ship = shipper(shelf, limit=1 << 30)
    body = bytes(range(256)) * 20_000
    sink = ship.open(REF)
    sink.write("stdout", body)
    await ship.close(sink)
    assert shelf.text() == body
    assert all(len(chunk.body) <= LARGEST_CHUNK for append in shelf.appends for chunk in append)
    assert all(sum(len(chunk.body) for chunk in append) <= LARGEST_BATCH for append in shelf.appends)


async def test_it_goes_by_itself_after_a_moment() -> None:
    shelf = Shelf()
    ship = shipper(shelf)
    ship.open(REF).write("stdout", b"hello")
    await asyncio.wait_for(shelf.appended.wait(), 10)
    assert shelf.text() == b"hello"


async def test_a_store_that_is_away_loses_nothing(monkeypatch: Any) -> None:
    monkeypatch.setattr("rota.refusals.FIRST_PAUSE", 0.0)
    shelf = Shelf(failures=3)
    ship = shipper(shelf)
    sink = ship.open(REF)
    sink.write("stdout", b"one ")
    await asyncio.wait_for(shelf.asked.wait(), 10)
    sink.write("stdout", b"two")
    await ship.close(sink)
    assert shelf.text() == b"one two"


async def test_many_threads_may_write_at_once() -> None:
    shelf = Shelf()
    ship = shipper(shelf, limit=1 << 30)
    sinks = [ship.open(Ref(f"job{n}", 1)) for n in range(4)]

    def chatter(sink: Any) -> None:
        for number in range(500):
            sink.write("stdout", f"{number}\n".encode())

    threads = [threading.Thread(target=chatter, args=(sink,)) for sink in sinks]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    for sink in sinks:
        await ship.close(sink)
    expected = "".join(f"{number}\n" for number in range(500)).encode()
    for sink in sinks:
        mine = [c.body for append in shelf.appends for c in append if c.job_id == sink.ref.job_id]
        assert b"".join(mine) == expected


async def test_prints_outside_an_attempt_go_where_they_always_went(capsys: Any) -> None:
    shelf = Shelf()
    ship = shipper(shelf)
    with captured():
        print("outside")
        sink = ship.open(REF)
        token = CURRENT.set(sink)
        print("inside", end="\ud800\n")
        CURRENT.reset(token)
        print("outside again")
    await ship.close(sink)
    assert capsys.readouterr().out == "outside\noutside again\n"
    assert shelf.text() == b"inside\\ud800\n"


async def test_a_log_call_with_wrong_arguments_is_kept_as_it_is() -> None:
    """Not through a logger: pytest's own handlers would raise the error that is meant to be swallowed."""
    shelf = Shelf()
    ship = shipper(shelf)
    sink = ship.open(REF)
    token = CURRENT.set(sink)
    record = logging.LogRecord("shop", logging.WARNING, __file__, 1, "%d pieces", ("many",), None)
    Handler().emit(record)
    CURRENT.reset(token)
    await ship.close(sink)
    assert shelf.text().startswith(b"WARNING shop: '%d pieces' (can't be formatted")


async def test_what_is_said_after_the_end_is_not_kept_and_keeps_nobody_waiting() -> None:
    """A function that does not stop goes on printing."""
    shelf = Shelf()
    ship = shipper(shelf)
    sink = ship.open(REF)
    sink.write("stdout", b"before")
    ending = asyncio.create_task(ship.close(sink))
    await asyncio.sleep(0)
    sink.write("stdout", b"after")
    await ending
    assert shelf.text() == b"before"
    assert sink.empty


async def test_the_end_of_a_small_output_does_not_wait_behind_a_large_one() -> None:
    shelf = Shelf()
    ship = shipper(shelf, limit=64 * LARGEST_BATCH)
    large, small = ship.open(Ref("large", 1)), ship.open(REF)
    large.write("stdout", bytes(20 * LARGEST_BATCH))
    small.write("stdout", b"done")
    both = [asyncio.create_task(ship.close(sink)) for sink in (large, small)]
    await asyncio.gather(*both)
    assert any(chunk.job_id == REF.job_id for append in shelf.appends[:2] for chunk in append)
    assert sum(len(chunk.body) for chunk in shelf.kept(Ref("large", 1))) == 20 * LARGEST_BATCH


async def test_while_it_runs_a_flood_is_carried_at_a_modest_rate() -> None:
    """After the beginning one batch, and then nothing until that has been paid for."""
    shelf = Shelf()
    ship = shipper(shelf, limit=16 * LARGEST_BATCH)
    sink = ship.open(REF)
    for _ in range(100):
        sink.write("stdout", bytes(LARGEST_BATCH))
    await shelf.appended.wait()
    assert ship._pump
    await asyncio.wait_for(asyncio.shield(ship._pump), 10)
    assert len(shelf.appends) == 9
    assert all(sum(len(c.body) for c in append if c.stream != CUT) <= LARGEST_BATCH for append in shelf.appends)
    assert ship._tails_from > asyncio.get_running_loop().time()
    await ship.close(sink)
    assert len(shelf.text()) > 15 * LARGEST_BATCH


async def test_news_of_others_does_not_wait_for_a_flood() -> None:
    shelf = Shelf()
    ship = shipper(shelf, limit=1 << 10)
    sink = ship.open(Ref("flood", 1))
    ship._tails_from = asyncio.get_running_loop().time() + 3600
    sink.write("stdout", bytes(4096))
    await asyncio.wait_for(shelf.appended.wait(), 10)
    if ship._pump:
        await ship._pump
    shelf.appended.clear()
    ship.open(REF).write("stdout", b"me too")
    await asyncio.wait_for(shelf.appended.wait(), 10)
    assert shelf.text() == b"me too"


async def test_what_the_store_refuses_is_told_in_its_place(monkeypatch: Any) -> None:
    monkeypatch.setattr("rota.refusals.FIRST_PAUSE", 0.0)

    class Picky(Shelf):
        async def append_output(self, who: Any, chunks: Sequence[Chunk]) -> list[Verdict]:
            if any(b"\0" in chunk.body for chunk in chunks):
                raise InvalidInput("output", "zeroes", "none")
            return await super().append_output(who, chunks)

    shelf = Picky()
    ship = shipper(shelf)
    sink = ship.open(REF)
    for stream, body in (("stdout", b"one\n"), ("stderr", b"\0\0"), ("stdout", b"three\n")):
        sink.write(stream, body)
    await ship.close(sink)
    assert shelf.text() == b"one\n\n[rota: 2 bytes of output could not be kept: InvalidInput]\nthree\n"

"""Output on its way into the store."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from typing import Any, cast

from rota.errors import StoreUnavailable
from rota.logs.capture import CURRENT, Handler, captured
from rota.logs.shipper import LARGEST_BATCH, LARGEST_CHUNK, Shipper
from rota.model.job import Ref, Verdict
from rota.store.base import Chunk, Store

REF = Ref("job", 1)


class Shelf:
    """The one verb of a store that the shipper uses, with the faults a test wants."""

    def __init__(self, failures: int = 0) -> None:
        self.appends: list[list[Chunk]] = []
        self.failures = failures
        self.appended = asyncio.Event()

    async def append_output(self, who: Any, chunks: Sequence[Chunk]) -> list[Verdict]:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("away")
        self.appends.append(list(chunks))
        self.appended.set()
        return [Verdict.APPLIED] * len(chunks)

    def now(self) -> int:
        return 0

    def text(self) -> bytes:
        return b"".join(chunk.body for append in self.appends for chunk in append)


def shipper(shelf: Shelf, limit: int = 1 << 20) -> Shipper:
    return Shipper(cast(Store, shelf), limit)


async def test_lines_of_one_stream_become_one_chunk_and_numbers_count_up() -> None:
    shelf = Shelf()
    ship = shipper(shelf)
    sink = ship.open(REF)
    for stream, body in (("stdout", b"a\n"), ("stdout", b"b\n"), ("stderr", b"c\n"), ("stdout", b"d")):
        sink.write(stream, body)
    await ship.flush()
    sink.write("stdout", b"e")
    await ship.flush()
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
    ship.open(REF).write("stdout", body)
    await ship.flush()
    assert shelf.text() == body
    assert all(len(chunk.body) <= LARGEST_CHUNK for append in shelf.appends for chunk in append)
    assert all(sum(len(chunk.body) for chunk in append) <= LARGEST_BATCH for append in shelf.appends)


async def test_beyond_the_limit_it_is_cut_once_and_marked() -> None:
    shelf = Shelf()
    ship = shipper(shelf, limit=10)
    sink = ship.open(REF)
    for _ in range(5):
        sink.write("stdout", b"1234")
    await ship.flush()
    assert shelf.text() == b"1234123412\n[output cut here: the limit of 10 bytes is reached]\n"


async def test_it_goes_by_itself_after_a_moment() -> None:
    shelf = Shelf()
    ship = shipper(shelf)
    ship.open(REF).write("stdout", b"hello")
    await asyncio.wait_for(shelf.appended.wait(), 10)
    assert shelf.text() == b"hello"


async def test_a_store_that_is_away_loses_nothing(monkeypatch: Any) -> None:
    monkeypatch.setattr("rota.logs.shipper.PAUSE_AFTER_ERROR", 0.0)
    shelf = Shelf(failures=3)
    ship = shipper(shelf)
    sink = ship.open(REF)
    sink.write("stdout", b"one ")
    flushing = asyncio.create_task(ship.flush())
    await asyncio.sleep(0)
    sink.write("stdout", b"two")
    await flushing
    await ship.flush()
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
    await ship.flush()
    expected = "".join(f"{number}\n" for number in range(500)).encode()
    for sink in sinks:
        mine = [c.body for append in shelf.appends for c in append if c.job_id == sink.ref.job_id]
        assert b"".join(mine) == expected


async def test_prints_outside_an_attempt_go_where_they_always_went(capsys: Any) -> None:
    shelf = Shelf()
    ship = shipper(shelf)
    with captured():
        print("outside")
        token = CURRENT.set(ship.open(REF))
        print("inside", end="\ud800\n")
        CURRENT.reset(token)
        print("outside again")
    await ship.flush()
    assert capsys.readouterr().out == "outside\noutside again\n"
    assert shelf.text() == b"inside\\ud800\n"


async def test_a_log_call_with_wrong_arguments_is_kept_as_it_is() -> None:
    """Not through a logger: pytest's own handlers would raise the error that is meant to be swallowed."""
    shelf = Shelf()
    ship = shipper(shelf)
    token = CURRENT.set(ship.open(REF))
    record = logging.LogRecord("shop", logging.WARNING, __file__, 1, "%d pieces", ("many",), None)
    Handler().emit(record)
    CURRENT.reset(token)
    await ship.flush()
    assert shelf.text().startswith(b"WARNING shop: '%d pieces' (can't be formatted")

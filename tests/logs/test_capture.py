"""Prints and log records go to the attempt that made them, and to nobody else."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import threading
from collections.abc import Callable

import pytest

from rota.clock import SystemClock
from rota.logs.capture import CURRENT, Handler, captured
from rota.logs.shipper import Sink
from rota.model.job import Ref


def sink() -> Sink:
    return Sink(Ref("job", 1), 1 << 20, SystemClock().now, lambda _: None)


def said(sink: Sink) -> list[tuple[str, bytes]]:
    return [(chunk.stream, chunk.body) for chunk in sink.take_first(1 << 20)]


def within(sink: Sink | None, act: Callable[[], None]) -> None:
    def run() -> None:
        CURRENT.set(sink)
        act()

    contextvars.copy_context().run(run)


def test_both_streams_and_log_records_are_told_apart() -> None:
    def speak() -> None:
        print("out")
        print("err", file=sys.stderr)
        logging.getLogger("mine").info("a %s", "record")

    there = sink()
    with captured():
        within(there, speak)
    assert said(there) == [("stdout", b"out\n"), ("stderr", b"err\n"), ("log", b"INFO mine: a record\n")]


def test_what_is_said_outside_any_attempt_goes_where_it_always_went(capsys: pytest.CaptureFixture[str]) -> None:
    with captured():
        print("to the terminal")
        sys.stdout.flush()
        logging.getLogger("mine").info("to nobody")
    print("afterwards")
    assert capsys.readouterr().out == "to the terminal\nafterwards\n"


async def test_attempts_side_by_side_don_t_hear_each_other() -> None:
    sinks = [sink(), sink()]
    turn = asyncio.Barrier(2)

    async def speak(place: int) -> None:
        CURRENT.set(sinks[place])
        for n in range(3):
            await turn.wait()
            print(place, n)

    with captured():
        await asyncio.gather(speak(0), speak(1))
    for place, there in enumerate(sinks):
        assert b"".join(body for _, body in said(there)) == b"".join(b"%d %d\n" % (place, n) for n in range(3))


def test_a_thread_of_its_own_speaks_for_itself() -> None:
    there = sink()
    with captured():
        within(there, lambda: _in_thread(lambda: print("unheard of")))
    assert said(there) == [], "only threads that rota starts belong to an attempt"


def _in_thread(act: Callable[[], None]) -> None:
    thread = threading.Thread(target=lambda: within(None, act))
    thread.start()
    thread.join()


def test_a_record_that_can_t_be_formatted_fails_nobody() -> None:
    record = logging.LogRecord("mine", logging.ERROR, "", 0, "%d", ("no number",), None)
    assert b"can't be formatted" in Handler().line(record)


def test_a_text_that_can_t_be_encoded_fails_nobody() -> None:
    there = sink()
    with captured():
        within(there, lambda: print("\ud800"))
    assert said(there) == [("stdout", b"\\ud800\n")]


def test_streams_and_logging_are_as_before_when_it_ends() -> None:
    root = logging.getLogger()
    before = (sys.stdout, sys.stderr, root.level, list(root.handlers))
    with captured():
        assert root.level <= logging.INFO
        assert not sys.stdout.isatty()
        assert sys.stdout.encoding == "utf-8"
    assert (sys.stdout, sys.stderr, root.level, list(root.handlers)) == before


def test_a_level_that_someone_chose_stays() -> None:
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)
    try:
        with captured():
            assert root.level == logging.ERROR
    finally:
        root.setLevel(level)

"""The output of attempts on the node's stdout: whole lines, harmless, and never at the node's cost."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from rota.cli import echo as echo_module
from rota.cli.echo import LARGEST, LEAST_COST, LONGEST, ROOM, Echo, Stdout, as_json, as_text
from rota.clock import ManualClock
from rota.model.times import iso
from tests.cli.program import LONG, Rota

ONE, TWO = "01930000-0000-7000-8000-0000aaaa1111", "01930000-0000-7000-8000-0000bbbb2222"


class Reader:
    """Takes what is written; while it is stopped, a writer waits."""

    def __init__(self, stopped: bool = False) -> None:
        self._texts: list[str] = []
        self._goes = threading.Event()
        if not stopped:
            self.go()

    def write(self, text: str) -> None:
        assert self._goes.wait(LONG)
        self._texts.append(text)

    def go(self) -> None:
        self._goes.set()

    @property
    def lines(self) -> list[str]:
        return "".join(self._texts).splitlines()


@contextmanager
def echoing(reader: Reader, format_: Callable[[echo_module.Line], str] = as_text) -> Iterator[Echo]:
    echo = Echo(reader.write, ManualClock(), format_)
    try:
        yield echo
    finally:
        reader.go()
        echo.close(LONG)


def test_lines_of_two_jobs_are_joined_apart() -> None:
    reader = Reader()
    with echoing(reader) as echo:
        one, two = echo.open(ONE, "mail", 1), echo.open(TWO, "report", 2)
        one.write("stdout", b"he")
        two.write("stdout", b"good")
        one.write("stderr", b"oh\nno")
        one.write("stdout", b"llo\n\nun")
        two.write("log", b"INFO shop: paid\n")
        two.write("stdout", b"bye\r\n")
        one.close()
        two.close()
    assert reader.lines == [
        "[mail aaaa1111 stderr] oh",
        "[mail aaaa1111] hello",
        "[mail aaaa1111]",
        "[report bbbb2222] INFO shop: paid",
        "[report bbbb2222] goodbye",
        "[mail aaaa1111 stderr] no",
        "[mail aaaa1111] un",
    ]


def test_characters_that_were_split_and_bytes_that_are_none() -> None:
    reader = Reader()
    with echoing(reader) as echo:
        one = echo.open(ONE, "mail", 1)
        body = "grün".encode()
        one.write("stdout", body[:3])
        one.write("stdout", body[3:] + b"\n\xff\xfe\n")
    assert reader.lines == ["[mail aaaa1111] grün", "[mail aaaa1111] \ufffd\ufffd"]


@pytest.mark.parametrize("format_", [as_text, as_json])
def test_control_characters_do_not_act(format_: Callable[[echo_module.Line], str]) -> None:
    reader = Reader()
    with echoing(reader, format_) as echo:
        echo.open(ONE, "mail", 1).write("stdout", "\x1b[2J\x07a\tb\rc\x9b1m\u202ed\n".encode())
    (line,) = reader.lines
    assert line.isprintable()
    if format_ is as_text:
        assert line == r"[mail aaaa1111] \x1b[2J\x07a b c\x9b1m\u202ed"
    else:
        assert json.loads(line)["message"] == "\x1b[2J\x07a\tb\rc\x9b1m\u202ed"


def test_a_line_as_json() -> None:
    reader = Reader()
    with echoing(reader, as_json) as echo:
        echo.open(ONE, "mail", 3).write("stderr", b"oh\n")
    (line,) = map(json.loads, reader.lines)
    assert line == {
        "time": iso(ManualClock().now()), "level": "info", "event": "AttemptOutput", "message": "oh",
        "job_id": ONE, "task": "mail", "number": 3, "stream": "stderr",
    }  # fmt: skip


def test_a_long_line_is_cut_and_marked_however_it_comes() -> None:
    reader = Reader()
    with echoing(reader) as echo:
        one = echo.open(ONE, "mail", 1)
        for _ in range(10):
            one.write("stdout", b"x" * LONGEST)
        one.write("stdout", b"\nshort\n" + b"y" * 3 * LARGEST)
        one.close()
    long, short, longest = reader.lines
    assert long == f"[mail aaaa1111] {'x' * LONGEST} [rota: {9 * LONGEST:,} more bytes]"
    assert short == "[mail aaaa1111] short"
    assert longest.endswith(f"y [rota: {3 * LARGEST - LONGEST:,} more bytes]")


@pytest.mark.parametrize("size", [1, 500])  # lines in a write
def test_a_flood_without_a_reader_is_dropped_counted_and_told(size: int) -> None:
    reader = Reader(stopped=True)
    lines = b"a line of output of some length, as jobs write it: \n" * size
    writes = 3 * ROOM // (len(lines) + LEAST_COST)
    with echoing(reader) as echo:
        one = echo.open(ONE, "flood", 1)
        for _ in range(writes):
            one.write("stdout", lines)
            assert echo._held <= ROOM
        for number in range(5_000):  # ends of jobs cost no memory either
            other = echo.open(TWO, "small", number)
            other.write("stdout", b"lost\n")
            other.close()
        assert echo._held <= ROOM
        reader.go()
        echo.close(LONG)
    echoed = sum(line.startswith("[flood") for line in reader.lines)
    told = [line for line in reader.lines if line.startswith("[rota]")]
    assert told == [reader.lines[-1]]
    found = re.fullmatch(
        r"\[rota\] output is left out here \(([\d,]+) lines\): stdout does not take it in time", told[0]
    )
    assert found
    assert echoed + int(found[1].replace(",", "")) == size * writes + 5_000
    assert 0 < echoed * len(lines) // size <= ROOM


def test_after_a_gap_lines_go_on_and_the_gap_stands_in_its_place() -> None:
    reader = Reader(stopped=True)
    with echoing(reader) as echo:
        one = echo.open(ONE, "flood", 1)
        one.write("stdout", b"first\nbegun")
        while not one.torn:
            one.write("stdout", b"." * LARGEST)
        reader.go()
        while one.torn:  # until half of the room is free again
            one.write("stdout", b"x")
        one.write("stdout", b"\nlast\n")
    first, *gap, x, last = reader.lines
    assert (first, x, last) == ("[flood aaaa1111] first", "[flood aaaa1111] x", "[flood aaaa1111] last")
    begun, *told = sorted(gap)
    assert begun.startswith("[flood aaaa1111] begun...")
    assert set(told) == {"[rota] output is left out here: stdout does not take it in time"}


def test_whole_texts_to_a_pipe_that_does_not_wait() -> None:
    """As the standard streams are after some programs; two threads write texts larger than a pipe."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    stdout = Stdout(writing)
    texts = [letter * 300_000 + "\n" for letter in "ab"]
    threads = [threading.Thread(target=stdout.write, args=[text]) for text in texts]
    for thread in threads:
        thread.start()
    with os.fdopen(reading) as pipe:
        found = [pipe.readline(), pipe.readline()]
    for thread in threads:
        thread.join(LONG)
    os.close(writing)
    assert sorted(found) == texts


SHOP = """
import logging, os, sys, rota

app = rota.App()

@app.task(retry=0)
def loud(name: str) -> None:
    print("hello", name)
    logging.getLogger("shop").info("paid")
    print("oh", file=sys.stderr, flush=True)
    os.write(1, b"by hand")

@app.task(retry=0)
async def asynchronous() -> None:
    print("from a loop")
"""


def test_a_node_with_echo(rota: Rota) -> None:
    (rota.folder / "echo_shop.py").write_text(SHOP)
    node = rota.start("up", "--app", "echo_shop", "--echo")
    node.read_until("is up")
    loud = rota.ok("submit", "loud", '{"name": "you"}')
    node.read_until("by hand", stream="out")
    command = rota.ok("submit", "--", "sh", "-c", "echo one; echo two >&2")
    node.read_until("two", stream="out")
    other = rota.ok("submit", "asynchronous")
    node.read_until("from a loop", stream="out")
    assert node.stop() == 0
    assert sorted(node.out.splitlines()) == sorted(
        [
            f"[loud {loud[-8:]}] hello you",
            f"[loud {loud[-8:]}] INFO shop: paid",
            f"[loud {loud[-8:]} stderr] oh",
            f"[loud {loud[-8:]}] by hand",
            f"[sh {command[-8:]}] one",
            f"[sh {command[-8:]} stderr] two",
            f"[asynchronous {other[-8:]}] from a loop",
        ]
    )
    assert "hello" not in node.err


@pytest.mark.slow
def test_a_node_with_echo_and_json(rota: Rota) -> None:
    node = rota.start("up", "--echo", "--json")
    job = rota.ok("submit", "--", "sh", "-c", "echo one; printf two")
    node.read_until("AttemptEnded", stream="out")
    assert node.stop() == 0
    lines = [json.loads(line) for line in node.out.splitlines()]
    echoed = [(line["message"], line["job_id"], line["task"]) for line in lines if line["event"] == "AttemptOutput"]
    assert echoed == [("one", job, "sh"), ("two", job, "sh")]


@pytest.mark.slow
def test_jobs_and_the_end_of_a_node_do_not_wait_for_a_reader(rota: Rota) -> None:
    node = rota.start("up", "--echo")
    node.read_until("is up")
    flood = ["sh", "-c", "head -c 10000000 /dev/zero | tr '\\0' '\\n'"]
    assert rota("run", "--", *flood).returncode == 0
    assert "still alive" in rota("run", "--", "echo", "still alive").stdout
    node.signal(signal.SIGTERM)
    assert node.process.wait(LONG) == 0
    assert node.end() == 0

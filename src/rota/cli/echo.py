"""`rota up --echo`: the output of attempts also goes to the node's stdout, line by line.

The node must not notice: `write` only puts bytes into a bounded buffer, and a thread of its own joins, formats and
writes them. While stdout takes less than comes, the buffer fills; then output is dropped until half of it is free
again, and a line tells how many lines are missing. The thread shares the interpreter with the node, so under a flood
it rests between its turns, even if stdout takes everything.
"""

from __future__ import annotations

import codecs
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from rota.cli.show import harmless_json, safe
from rota.clock import Clock
from rota.logs.sink import count_lines
from rota.model.times import Instant
from rota.telemetry.lines import json_text

# Bytes that may wait for stdout, and what each write costs besides its bytes: a job may write single bytes.
ROOM = 4 << 20
LEAST_COST = 200
# The largest piece; a function may print any number of bytes at once.
LARGEST = 1 << 20
# Bytes of a line that are shown.
LONGEST = 8 << 10
# Bytes that become lines at once; a whole read of newlines would become a million objects.
SLICE = 8 << 10
# The thread rests this many times as long as it has computed, while more is waiting.
REST = 3.0
SHORT_ID = 8  # `rota job logs` takes the end of an id, too


class Line(NamedTuple):
    """A line of an attempt, or (without one) the number of lines that are missing here."""

    at: Instant
    job_id: str
    task: str
    number: int
    stream: str
    text: str
    cut: int = 0  # bytes


Format = Callable[[Line], str]


def as_text(line: Line) -> str:
    if not line.job_id:
        return f"[rota] {line.text}\n"
    stream = " stderr" if line.stream == "stderr" else ""
    text = f" {safe(_marked(line))}" if line.text else ""
    return f"[{safe(line.task)} {line.job_id[-SHORT_ID:]}{stream}]{text}\n"


def as_json(line: Line) -> str:
    if not line.job_id:
        return json_text(line.at, "warning", "OutputDropped", line.text, {}) + "\n"
    fields = {"job_id": line.job_id, "task": line.task, "number": line.number, "stream": line.stream}
    return harmless_json(json_text(line.at, "info", "AttemptOutput", _marked(line), fields)) + "\n"


def _marked(line: Line) -> str:
    return f"{line.text} [rota: {line.cut:,} more bytes]" if line.cut else line.text


class Stdout:
    """Whole texts to a descriptor, from any thread. Nothing stays in a buffer of Python's, which the main thread would
    have to wait for at the end."""

    def __init__(self, descriptor: int, encoding: str = "utf-8") -> None:
        self._descriptor, self._encoding = descriptor, encoding
        self._lock = threading.Lock()

    def write(self, text: str, /) -> int:
        body = memoryview(text.encode(self._encoding, "backslashreplace"))
        with self._lock:
            while body:
                try:
                    body = body[os.write(self._descriptor, body) :]
                except BlockingIOError:  # another process has made it so
                    select.select([], [self._descriptor], [])
        return len(text)

    def flush(self) -> None:
        pass


class Echo:
    """The buffer of all attempts, and the thread that empties it."""

    def __init__(self, write: Callable[[str], object], clock: Clock, format_: Format = as_text) -> None:
        self._write, self._clock, self._format = write, clock, format_
        self._waiting: deque[_Piece] = deque()
        self._held = 0  # cost of what waits
        self._full = False
        self._missing, self._lines, self._exact = False, 0, True  # what was dropped since the last piece with room
        self._news = threading.Condition()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rota-echo", daemon=True)
        self._thread.start()

    def open(self, job_id: str, task: str, number: int) -> AttemptEcho:
        return AttemptEcho(self, job_id, task, number)

    def put(self, voice: AttemptEcho, stream: str, body: bytes) -> None:
        """From any thread; never waits for stdout. An empty body is the end of the attempt."""
        cost = len(body) + LEAST_COST
        with self._news:
            self._full = self._held > ROOM // 2 if self._full else self._held + cost > ROOM
            if self._full:
                self._drop(voice, stream, body)
                return
            torn = voice.found_room(stream, body)
            self._waiting.append(_Piece(voice, stream, body, self._clock.now(), torn, self._take_missing()))
            self._held += cost
            self._news.notify()

    def _drop(self, voice: AttemptEcho, stream: str, body: bytes) -> None:
        """An end is dropped with the lines that it would have completed."""
        lines, exact = count_lines(body) if body else (len(voice.unfinished), True)
        self._missing |= bool(body) or lines > 0
        self._lines, self._exact = self._lines + lines, self._exact and exact
        voice.torn.add(stream)

    def _take_missing(self) -> str:
        if not self._missing:
            return ""
        about = "" if self._exact else "about "
        lines = f" ({about}{self._lines:,} lines)" if self._lines else ""
        text = f"output is left out here{lines}: stdout does not take it in time"
        self._missing, self._lines, self._exact = False, 0, True
        return text

    def _run(self) -> None:
        while (piece := self._next()) is not None:
            begun = time.thread_time()
            for lines in piece.lines():
                with suppress(Exception):  # go on after a write to a closed terminal
                    if lines:
                        self._write("".join(map(self._format, lines)))
                used = time.thread_time() - begun
                if self._waiting:
                    self._closing.wait(used * REST)
                begun = time.thread_time()
            if piece.voice:
                with self._news:
                    self._held -= len(piece.body) + LEAST_COST

    def _next(self) -> _Piece | None:
        """Waits for it; None at the end."""
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._missing or self._closing.is_set())
            if self._waiting:
                return self._waiting.popleft()
            if self._missing:
                return _Piece(None, "", b"", self._clock.now(), False, self._take_missing())
            return None

    def close(self, within: float = 1.0) -> None:
        """Waits a moment for the rest."""
        with self._news:
            self._closing.set()
            self._news.notify()
        self._thread.join(within)


class AttemptEcho:
    """The output of one attempt on its way to stdout. A line that has no end yet is kept by the thread."""

    def __init__(self, echo: Echo, job_id: str, task: str, number: int) -> None:
        self._echo, self.job_id, self.task, self.number = echo, job_id, task, number
        self.torn: set[str] = set()  # streams whose last piece was dropped
        self.unfinished: set[str] = set()  # streams whose last piece that found room did not end a line
        self._begun: dict[str, _Begun] = {}

    def write(self, stream: str, body: bytes) -> None:
        if len(body) <= LARGEST:
            self._echo.put(self, stream, body)
            return
        for start in range(0, len(body), LARGEST):
            self._echo.put(self, stream, body[start : start + LARGEST])

    def found_room(self, stream: str, body: bytes) -> bool:
        """Returns whether the piece before it is missing."""
        if body.endswith(b"\n"):
            self.unfinished.discard(stream)
        elif body:
            self.unfinished.add(stream)
        torn = stream in self.torn
        self.torn.discard(stream)
        return torn

    def close(self) -> None:
        """The attempt is over, and with it its last lines."""
        self._echo.put(self, "", b"")

    def joined(self, stream: str, body: bytes, at: Instant) -> Iterator[Line]:
        *ends, rest = body.split(b"\n")
        for end in ends:
            begun = self._begun.pop(stream, None) or _Begun(at)
            begun.add(end)
            yield self._line(stream, begun)
        if rest:
            self._begun.setdefault(stream, _Begun(at)).add(rest)

    def ended(self, *streams: str) -> Iterator[Line]:
        """What has begun in these streams."""
        for stream in streams or tuple(self._begun):
            if begun := self._begun.pop(stream, None):
                yield self._line(stream, begun)

    def _line(self, stream: str, begun: _Begun) -> Line:
        # A character that was cut in half is left out.
        text, _ = codecs.utf_8_decode(begun.body, "replace", not begun.cut)
        text = text.removesuffix("\r")
        return Line(begun.at, self.job_id, self.task, self.number, stream, text, begun.cut)


class _Begun:
    """A line without an end."""

    __slots__ = ("at", "body", "cut")

    def __init__(self, at: Instant) -> None:
        self.at, self.body, self.cut = at, b"", 0

    def add(self, part: bytes) -> None:
        room = LONGEST - len(self.body)
        self.body += part[:room]
        self.cut += max(len(part) - room, 0)


class _Piece(NamedTuple):
    voice: AttemptEcho | None
    stream: str
    body: bytes  # empty: the attempt has ended
    at: Instant
    torn: bool  # the piece before it is missing
    dropped: str  # the sentence about what is missing before it

    def lines(self) -> Iterator[list[Line]]:
        """A few at a time."""
        first = list(self.voice.ended(self.stream)) if self.voice and self.torn else []
        if self.dropped:
            first.append(Line(self.at, "", "", 0, "", self.dropped))
        yield first
        if self.voice is None:
            return
        if not self.body:
            yield list(self.voice.ended())
        for start in range(0, len(self.body), SLICE):
            yield list(self.voice.joined(self.stream, self.body[start : start + SLICE], self.at))

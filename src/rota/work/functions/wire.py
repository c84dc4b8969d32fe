"""What the controller and its pool processes say to each other.

Frames are 4 bytes of length and a MessagePack body. Never pickle: what comes back was written by a process that runs
other people's code, and must at worst be nonsense.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

import msgspec

from rota.clock import SystemClock
from rota.config import Settings
from rota.errors import RotaError, Stale
from rota.model.graph import ParentInfo
from rota.model.outcome import Outcome

HEAD = 4
LARGEST_SAYING = 256 << 10
READ_SIZE = 256 << 10
# An order travels in messages of at most this size: one, nearly always.
LARGEST_MESSAGE = 64 << 10
# The controller's answers to a pool process, a byte each: its output was read; what became of a `Save`.
READ = b"r"
SAVED, STALE, UNSAVED = b"k", b"s", b"u"

Word = TypeVar("Word")


class Place(msgspec.Struct, frozen=True):
    """Where the function of a task is found: what was imported, and what it is called there."""

    task: str
    module: str
    name: str


class Briefing(msgspec.Struct, frozen=True):
    """All that the nursery is told. Settings and environment may hold passwords: they travel in memory only."""

    path: tuple[str, ...]
    modules: tuple[str, ...]
    places: tuple[Place, ...]
    settings: Settings
    environment: bytes  # packed (`work/own_programs.py`)


class Order(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """One attempt."""

    job: str
    fence: int
    number: int
    task: str
    queue: str
    priority: int
    owner: str
    args: str
    parents: tuple[ParentInfo, ...] = ()
    state: str | None = None  # what an earlier attempt has saved
    start_by: float | None = None  # by the clock that all processes of the machine share: later its rate would not hold

    def too_late(self) -> bool:
        """To start. Asked right before the function is called."""
        return self.start_by is not None and SystemClock().monotonic() > self.start_by


class Said(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A log line, and how much had been printed to stdout and stderr before it."""

    body: bytes
    out: int
    err: int


class Told(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """How far it is."""

    fraction: float | None
    text: str


class Save(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """To be kept for the next attempt. It waits for the answer: one of SAVED, STALE and UNSAVED."""

    body: str


class Done(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The end of an attempt, and what the process is like after it."""

    outcome: Outcome
    wall: int  # microseconds
    cpu: int
    memory: int  # the most it had at once, in bytes
    leaves: bool  # it takes no other job: it ends itself
    litter: bool  # it has processes below it
    spoke: bool  # something may be in its pipes: it does nothing before it hears that they were read (`READ`)


def answer_to(saving: Future[None]) -> bytes:
    error = saving.exception()
    return SAVED if error is None else STALE if isinstance(error, Stale) else UNSAVED


def saved(answer: bytes) -> RotaError | None:
    """What the answer means to whoever saved."""
    if answer == SAVED:
        return None
    return RotaError("it could not be saved") if answer == UNSAVED else Stale()


# -- with a host, which has many attempts at once: each has a key ----------------------------------------------------
class Given(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """To be run."""

    key: int
    order: Order


class Halt(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """It should stop."""

    key: int
    rude: bool  # by an exception, also if its function could look at `ctx.cancelled`


class Ping(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Does its loop still turn?"""


class Pong(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """It does."""

    memory: int  # that it has now, in bytes


class Uttered(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Output, or log lines."""

    key: int
    stream: str
    body: bytes


class Progressed(msgspec.Struct, frozen=True, array_like=True, tag=True):
    key: int
    told: Told


class Keep(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """To be kept for the next attempt; `Kept` with the same number is the answer."""

    key: int
    number: int
    body: str


class Kept(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int
    answer: bytes  # one of SAVED, STALE and UNSAVED


class Ended(msgspec.Struct, frozen=True, array_like=True, tag=True):
    key: int
    outcome: Outcome
    wall: int  # microseconds


class Nonsense(Exception):
    """Something else than a frame came."""


_encode = msgspec.msgpack.Encoder().encode
decode_order = msgspec.msgpack.Decoder(Order).decode
decode_word = msgspec.msgpack.Decoder(Said | Told | Save | Done).decode
decode_given = msgspec.msgpack.Decoder(Given | Halt | Kept | Ping).decode
decode_guest = msgspec.msgpack.Decoder(Uttered | Progressed | Keep | Ended | Pong).decode


def frame(word: msgspec.Struct) -> bytes:
    body = _encode(word)
    return len(body).to_bytes(HEAD, "big") + body


def arrived(channel: socket.socket, most: int = READ_SIZE) -> bytes | None:
    """What a socket that never waits has; nothing (`b""`) if the other side is gone, None if there is none just now."""
    try:
        return channel.recv(most)
    except BlockingIOError:
        return None
    except OSError:
        return b""


class Frames(Generic[Word]):
    """Puts frames together from what arrives; a larger one than that is nonsense."""

    def __init__(self, largest: int, decode: Callable[[bytes], Word]) -> None:
        self._largest, self._decode = largest, decode
        self._parts: list[bytes] = []
        self._size, self._needed = 0, HEAD

    def feed(self, data: bytes) -> list[Word]:
        """Raises Nonsense."""
        self._parts.append(data)
        self._size += len(data)
        if self._size < self._needed:
            return []
        data = b"".join(self._parts) if len(self._parts) > 1 else data
        found: list[Word] = []
        start, end = 0, len(data)
        self._needed = HEAD
        while end - start >= HEAD:
            length = int.from_bytes(data[start : start + HEAD], "big")
            if length > self._largest:
                raise Nonsense(f"a frame of {length} bytes")
            if end - start - HEAD < length:
                self._needed = HEAD + length
                break
            try:
                found.append(self._decode(data[start + HEAD : start + HEAD + length]))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise Nonsense(str(error)) from None
            start += HEAD + length
        self._parts, self._size = ([data[start:]] if start < end else []), end - start
        return found

"""The messages between the node and its function processes. Pool processes and hosts use the same.

Frames are 4 bytes of length and a MessagePack body. Never pickle: user code can write to the channel, and a forged
frame must be no worse than invalid. Every message about an attempt carries the `key` of its order, so that leftovers of
an earlier attempt can't speak for a later one.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from rota.clock import SystemClock
from rota.config import Settings
from rota.errors import RotaError, Stale
from rota.model.graph import ParentInfo
from rota.model.outcome import Outcome

HEAD = 4
LARGEST_OUTPUT = 256 << 10  # of output, in one message
READ_SIZE = 256 << 10
# An order to a pool process travels in messages of at most this size: one, nearly always.
LARGEST_MESSAGE = 64 << 10
SAVED, STALE, UNSAVED = range(3)  # answers to a `SaveRequest`

Word = TypeVar("Word")


class FunctionPath(msgspec.Struct, frozen=True):
    """The location of a task's function: the module to import, and the qualified name in it."""

    task: str
    module: str
    name: str


class Briefing(msgspec.Struct, frozen=True):
    """The configuration of the fork server. Settings and environment may hold passwords: they travel in memory only."""

    path: tuple[str, ...]
    modules: tuple[str, ...]
    functions: tuple[FunctionPath, ...]
    settings: Settings
    environment: bytes  # packed (`work/own_programs.py`)
    app: tuple[str, str] = ("", "")  # the module that makes the app, and its name
    says_started: bool = False  # processes tell when their start hooks have run


# -- from the node ---------------------------------------------------------------------------------------------------
class Order(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Run one attempt of a function."""

    key: int
    job: str
    fence: int
    number: int
    task: str
    queue: str
    priority: int
    owner: str
    args: str
    parents: tuple[ParentInfo, ...] = ()
    state: str | None = None  # saved by an earlier attempt
    start_by: float | None = None  # on the monotonic clock that all processes of the machine share
    meta: str | None = None  # of the order, as JSON

    def too_late(self) -> bool:
        """Whether a start now would break its rate. Asked right before the function is called."""
        return self.start_by is not None and SystemClock().monotonic() > self.start_by


class StopRequest(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Stop an attempt in a host. (A pool process gets SIGTERM instead: its only thread is in the function.)"""

    key: int
    rude: bool  # by an exception, also if its function could look at `ctx.cancelled`


class SaveAnswer(msgspec.Struct, frozen=True, array_like=True, tag=3):
    number: int
    answer: int

    def error(self) -> RotaError | None:
        if self.answer == SAVED:
            return None
        return RotaError("it could not be saved") if self.answer == UNSAVED else Stale()


class OutputRead(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The pipes of a pool process are empty: it may take the next order."""


class Ping(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Does the loop of the host still turn?"""


# -- from a process --------------------------------------------------------------------------------------------------
class OutputChunk(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Output that does not come through the pipes: log lines, and in a host all that Python prints."""

    key: int
    stream: str
    body: bytes
    out: int = 0  # bytes that the process had written to its stdout before
    err: int = 0


class ProgressReport(msgspec.Struct, frozen=True, array_like=True, tag=2):
    key: int
    fraction: float | None
    text: str


class SaveRequest(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Stores a state for the next attempt. `SaveAnswer` with the same number is the answer."""

    key: int
    number: int
    body: str


class MaskRequest(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """Masks these values from now on. `waits`: a pool process waits for a `SaveAnswer`, because its prints come by
    another way."""

    key: int
    values: list[str]
    waits: bool = False


class CallEnd(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The end of an attempt. The rest describes a pool process after it."""

    key: int
    outcome: Outcome
    wall: int  # microseconds
    cpu: int = 0
    memory: int = 0  # peak, in bytes
    leaves: bool = False  # it takes no other order: it ends itself
    litter: bool = False  # it has processes below it
    printed: bool = False  # its pipes may hold something: it waits for `OutputRead`


class Pong(msgspec.Struct, frozen=True, array_like=True, tag=5):
    memory: int  # resident now, in bytes


class Started(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """The start hooks of a process have run: it takes orders now."""


class Nonsense(Exception):
    """Invalid data came instead of a frame."""


ToProcess = Order | StopRequest | SaveAnswer | OutputRead | Ping
FromProcess = OutputChunk | ProgressReport | SaveRequest | MaskRequest | CallEnd | Pong | Started

_encode = msgspec.msgpack.Encoder().encode
decode_order = msgspec.msgpack.Decoder(Order).decode
decode_request: Callable[[bytes], ToProcess] = msgspec.msgpack.Decoder(ToProcess).decode
decode_report: Callable[[bytes], FromProcess] = msgspec.msgpack.Decoder(FromProcess).decode


def frame(word: msgspec.Struct) -> bytes:
    body = _encode(word)
    return len(body).to_bytes(HEAD, "big") + body


# A pool process reads each answer whole, by its size: children of its function may read from the same socket.
SAVE_ANSWER_SIZE = len(frame(SaveAnswer(0, SAVED)))
OUTPUT_READ_SIZE = len(frame(OutputRead()))


def arrived(channel: socket.socket, most: int = READ_SIZE) -> bytes | None:
    """Reads a non-blocking socket: b"" if the other side has closed it, None if there is nothing just now."""
    try:
        return channel.recv(most)
    except BlockingIOError:
        return None
    except OSError:
        return b""


class Frames(Generic[Word]):
    """Assembles frames from pieces of a stream. A frame above `largest` bytes is invalid."""

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

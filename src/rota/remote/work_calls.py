"""The messages of a far-away worker: what it sends to `/api/v1/worker/...`, and what it gets back.

They are the verbs of a node, with two additions. Claims have an id, so that a repeat after a lost answer gets the same
jobs. Each attempt has a ticket, which a claim or a renewal returns; every write about the attempt carries it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from rota.model.graph import ParentInfo
from rota.model.job import Claimed, Kind, Ref, Verdict
from rota.model.node import News
from rota.model.outcome import Settlement
from rota.model.task import TaskInfo
from rota.model.times import SECOND, Duration
from rota.store.values import Chunk, Note, Start

PATH = "/api/v1/worker"
# Lines of the stream `line`. Any other line has the letters of the topics that were touched. `open` is followed by the
# address at which the server was called.
OPENED, QUIET, ENDED = b"open", b".", b"end"
PULSE = 5.0  # seconds between two signs of life from the server on a quiet line
# A worker whose line is closed counts as gone when it has not renewed for this long. A live one renews about every
# second, and at once when it has lost its line.
GRACE: Duration = 17 * SECOND // 10


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request of a worker."""

    incarnation: str


class RegisterCall(Message, frozen=True):
    id: str
    roles: tuple[str, ...]
    queues: dict[str, int]
    version: str
    lease: Duration
    tasks: tuple[TaskInfo, ...] = ()
    replaces: tuple[str, ...] = ()


class RenewCall(Message, frozen=True):
    stopping: bool = False
    line: str | None = None  # the line that the worker has open


class Renewed(msgspec.Struct, frozen=True):
    news: News
    tickets: tuple[str, ...] = ()  # of `news.holds`, in their order


class ClaimCall(Message, frozen=True):
    claim: str  # the same text: the same claim
    wants: dict[str, int]
    kinds: tuple[Kind, ...]
    start: dict[str, int]


class ClaimedJobs(msgspec.Struct, frozen=True):
    jobs: list[Claimed]
    tickets: list[str]


class TicketCall(Message, frozen=True):
    """Writes about attempts, with a ticket for each."""

    tickets: tuple[str, ...]


class AttemptsCall(TicketCall, frozen=True):
    refs: tuple[Ref, ...]


class FinishCall(TicketCall, frozen=True):
    settlements: tuple[Settlement, ...]


class OutputCall(TicketCall, frozen=True, omit_defaults=True):
    chunks: tuple[Chunk, ...]
    late: bool = False  # `incarnation` is the one that ran the attempts, and is gone


class NoteCall(TicketCall, frozen=True):
    notes: tuple[Note, ...]


class ParentsCall(Message, frozen=True):
    ref: Ref
    ticket: str


class ChargeCall(Message, frozen=True):
    used: tuple[tuple[str, str, Duration], ...]  # queue, flow, slot-time


class Verdicts(msgspec.Struct, frozen=True):
    verdicts: list[Verdict]


class Starts(msgspec.Struct, frozen=True):
    starts: list[Start]


class Parents(msgspec.Struct, frozen=True):
    parents: list[ParentInfo]


class LineQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    incarnation: str
    line: str  # chosen by the worker


def address_text(address: Sequence[Any] | None) -> str:
    """An address of a socket, in the same words on both sides of a connection."""
    if not address:
        return ""
    return f"{str(address[0]).removeprefix('::ffff:')} {address[1]}"

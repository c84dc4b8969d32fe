"""Mutants of the way between far-away workers and their server: each switches one safeguard off.

`pytest -p tests.remote.mutants` with ROTA_MUTANT in the environment runs tests on a mutant. Those that are named beside
it must notice (`test_mutants.py`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest import mock

from rota.api import authentication
from rota.api.far_workers import FarWorkers
from rota.api.lines import Lines
from rota.api.tickets import Tickets
from rota.errors import InvalidInput, StoreUnavailable
from rota.model.access import Grant
from rota.model.job import Ref, Verdict
from rota.model.principal import SYSTEM
from rota.remote import line, replies, store
from rota.remote.line import Look, WorkerLine
from rota.telemetry.events import NodeDied

VARIABLE = "ROTA_MUTANT"


class Mutant(NamedTuple):
    caught_by: str  # tests
    place: Any
    name: str
    instead: Any


def _without_incarnation(issue: Callable[..., str]) -> Callable[..., str]:
    return lambda self, key, incarnation, of: issue(self, key, "", of)


def _without_fence(issue: Callable[..., str]) -> Callable[..., str]:
    return lambda self, key, incarnation, of: issue(self, key, incarnation, Ref(of.job_id, 1))


def _without_key(issue: Callable[..., str]) -> Callable[..., str]:
    return lambda self, key, incarnation, of: issue(self, "", incarnation, of)


def _applied(carry: Callable[..., Any]) -> Callable[..., Any]:
    async def lie(*args: Any) -> list[Any]:
        return [Verdict.APPLIED if told is Verdict.STALE else told for told in await carry(*args)]

    return lie


async def _yes(*_: Any) -> bool:
    return True


async def _nothing(*_: Any) -> None: ...


async def _claim_anew(self: FarWorkers, grant: Grant, call: Any) -> Any:
    return await self._claim(grant, call)


async def _any_line(self: Lines, incarnation: str, name: str) -> Any:
    return next((one for one in await self._store.nodes(SYSTEM) if one.incarnation == incarnation), None)


async def _unheard(self: Lines, incarnation: str, name: str) -> None:
    """Takes over whoever had this line, also if it has renewed since."""
    if await self.named(incarnation, name) is not None:
        await asyncio.sleep(0.05)
        node = await _any_line(self, incarnation, name)
        moved = await self._store.take_over(SYSTEM, incarnation, node.beats, self._rule)
        self._bus.emit(NodeDied(node.id, "its line was closed", len(moved or ())))


def _while_stopping(closed: Callable[..., None]) -> Callable[..., None]:
    def start_notice(self: Lines, incarnation: str, name: str) -> None:
        with mock.patch.object(self._stopping, "is_set", return_value=False):
            closed(self, incarnation, name)

    return start_notice


def _named(begin: Callable[..., None]) -> Callable[..., None]:
    def begin_named(self: WorkerLine, name: str, called: str) -> None:
        begin(self, name, called)
        self._name = name

    return begin_named


def _blamed(error_of: Callable[..., Exception]) -> Callable[..., Exception]:
    def error(*args: Any) -> Exception:
        found = error_of(*args)
        return InvalidInput("values", "some", "others") if isinstance(found, StoreUnavailable) else found

    return error


_DOOR, _LINES = "tests/api/test_far_workers.py", "tests/api/test_lines.py"
_LINE, _LINK = "tests/remote/test_line.py", "tests/remote/test_worker_link.py"
MUTANTS = {
    # Of the server.
    "ticket-unchecked": Mutant(_DOOR, Tickets, "fits", lambda *_: True),
    "ticket-of-any-incarnation": Mutant(_DOOR, Tickets, "issue", _without_incarnation(Tickets.issue)),
    "ticket-of-any-attempt": Mutant(_DOOR, Tickets, "issue", _without_fence(Tickets.issue)),
    "ticket-of-any-key": Mutant(_DOOR, Tickets, "issue", _without_key(Tickets.issue)),
    "stale-told-applied": Mutant(_DOOR, FarWorkers, "_carry", _applied(FarWorkers._carry)),
    "incarnation-of-anyone": Mutant(_DOOR, FarWorkers, "owns", _yes),
    "replaces-anyone": Mutant(_DOOR, FarWorkers, "_check_replaced", _nothing),
    "any-queue": Mutant(_DOOR, Grant, "serves", lambda *_: True),
    "claim-repeated": Mutant(_DOOR, FarWorkers, "claim", _claim_anew),
    "id-taken-over": Mutant(_DOOR, FarWorkers, "_fell_silent", _yes),
    "key-believed-for-ever": Mutant("tests/api/test_authentication.py", authentication, "BELIEVED", float("inf")),
    "any-line-counts": Mutant(_LINES, Lines, "named", _any_line),
    "renewal-unheard": Mutant(_LINES, Lines, "_notice", _unheard),
    "end-of-server-is-death": Mutant(_LINES, Lines, "_closed", _while_stopping(Lines._closed)),
    # Of the worker.
    "proxy-believed": Mutant(_LINE, WorkerLine, "_begin", _named(WorkerLine._begin)),
    "exposure-ignored": Mutant(_LINE, WorkerLine, "exposed", None),
    "look-ignored": Mutant(_LINE, Look, "refused", False),
    "goodbye-ignored": Mutant(_LINE, line, "ENDED", b"never said"),
    "line-unnamed": Mutant(_LINE, WorkerLine, "name", lambda _: None),
    "answer-not-repeated": Mutant(_LINK, store, "PAUSES", ()),
    "outage-blamed-on-values": Mutant("tests/remote/test_store.py", store, "error_of", _blamed(replies.error_of)),
}


@contextmanager
def patched(name: str) -> Iterator[None]:
    mutant = MUTANTS[name]
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(mutant.place, mutant.name, mutant.instead))
        yield


_whole_run = ExitStack()


def pytest_configure() -> None:
    """As a plugin."""
    _whole_run.enter_context(patched(os.environ[VARIABLE]))

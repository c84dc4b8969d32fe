"""Mutants of the hot tier: each switches one of its safeguards off, and needs a tier that goes wrong in a certain way.

Some safeguards have none, since nothing that may be relied on depends on them: followers that wait for the leader
promote the same jobs a second time otherwise, which does nothing; the time for which new processes distrust the hot
tier, and the rule that a moved entry is not dropped, matter for a moment each, and the sweep ends that within 2 s. Unit
tests hold those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rota.hot import due
from rota.hot.due import DueJobs
from rota.hot.heap import DueHeap, Placed
from rota.hot.lane import Due, HotAway
from rota.hot.member import Member
from rota.hot.side import HotSide
from rota.hot.wakes import Wakes
from rota.model.times import Duration
from rota.store.carriers import hints
from tests.sim.hot_ways import CLOSED, CUT, DEAF, FORGETFUL, GONE, HONEST, LIAR, STUBBORN

# Names of jobs are believed: promote_jobs does not look at the due time. An edit of a query, see `mutants`.
NAMED_TOO_EARLY = "named-too-early"


async def _no_sweep(self: DueJobs, limit: int, late: Duration) -> int:
    self._swept_at = self._clock.monotonic()
    return 0


async def _reads_nothing(self: DueJobs) -> None:
    self._doubtful = False


def _ears_shut(self: HotSide) -> None:
    """Whoever hears of a due time that the heap may not know takes no notice."""


def _lossless(add: Callable[..., Any]) -> Callable[..., Any]:
    async def add_without_a_word(self: DueHeap, entries: Sequence[Due]) -> Placed:
        return Placed((await add(self, entries)).earliest, lost=frozenset())

    return add_without_a_word


def _followers_leave_it(read_ahead: Callable[..., Any]) -> Callable[..., Any]:
    async def read_if_it_leads(self: DueJobs) -> None:
        if not self._follows:
            await read_ahead(self)

    return read_if_it_leads


def _says_nothing(judge: Callable[..., Any]) -> Callable[..., Any]:
    async def judge_and_keep_it(self: Wakes) -> None:
        self._said_at = float("inf")
        await judge(self)

    return judge_and_keep_it


def _obedient(drop: Callable[..., Any]) -> Callable[..., Any]:
    """Nobody notices that a dropped entry came back."""

    async def promote_and_forget(self: DueJobs, entries: Sequence[Due]) -> Any:
        answer = await drop(self, entries)
        self._dropped = None
        return answer

    return promote_and_forget


async def _credulous(self: Member, work: Callable[..., Any]) -> Any:
    """What a server answers is taken for an answer."""
    if self.problem is not None:
        raise HotAway(self.problem)
    return await work(self._lane)


# mutant -> (where, what, instead of it).
PATCHES: dict[str, list[tuple[Any, str, Any]]] = {
    "sweep-off": [(DueJobs, "_sweep", _no_sweep)],
    "read-ahead-off": [(DueJobs, "_read_ahead", _reads_nothing)],
    "doubt-ignored": [(HotSide, "_due_appeared", _ears_shut)],
    "part-taken-for-whole": [(DueHeap, "whole", True)],
    "loss-unsaid": [(DueHeap, "add", _lossless(DueHeap.add))],
    "deafness-unsaid": [(Wakes, "_judge", _says_nothing(Wakes._judge))],
    "followers-read-nothing": [(DueJobs, "_read_ahead", _followers_leave_it(DueJobs._read_ahead))],
    "ids-unchecked": [(due, "is_id", bool), (hints, "is_id", bool)],  # of two guards each is enough
    "nonsense-believed": [(Member, "call", _credulous)],
    "disobedience-unseen": [(DueJobs, "_promote", _obedient(DueJobs._promote))],
}
_CALM: dict[str, Any] = {"length": 20.0, "visits": 10, "fault_every": 4, "hot": 1}
STRESS: dict[str, dict[str, Any]] = {
    NAMED_TOO_EARLY: {**_CALM, "lying": LIAR, "visits": 40},
    "sweep-off": {**_CALM, "lying": CLOSED},
    "read-ahead-off": {**_CALM, "lying": FORGETFUL},
    "doubt-ignored": {**_CALM, "lying": CUT, "decrees": 20},
    "part-taken-for-whole": {**_CALM, "lying": GONE},
    "loss-unsaid": {**_CALM, "lying": CUT, "server": True},
    "deafness-unsaid": {**_CALM, "lying": DEAF, "server": True, "deaf_rate": 0.0},
    "followers-read-nothing": {**_CALM, "lying": HONEST, "decrees": 20},
    "ids-unchecked": {**_CALM, "lying": LIAR},
    "nonsense-believed": {**_CALM, "lying": LIAR},
    "disobedience-unseen": {**_CALM, "lying": STUBBORN},
}

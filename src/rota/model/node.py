"""Nodes of the cluster: who they are, how they prove that they live, and when they are taken for dead."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from rota.model.job import Ref
from rota.model.times import Duration, Instant


class NodeState(StrEnum):
    LIVE = "live"
    STOPPING = "stopping"
    LEFT = "left"
    DEAD = "dead"


class NewNode(msgspec.Struct, frozen=True):
    """One start of one rota process. The id may be given and come back; the incarnation is new at every start."""

    id: str
    incarnation: str
    roles: tuple[str, ...]
    queues: dict[str, int]  # name -> slots
    version: str
    lease: Duration


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    incarnation: str
    roles: tuple[str, ...]
    queues: dict[str, int]
    version: str
    state: NodeState
    started_at: Instant
    seen_at: Instant
    lease: Duration
    beats: int  # how often it has renewed; a number that stands still is silence
    running: int = 0
    leader: bool = False
    gone: bool = False  # its process has certainly ended
    fading: Duration | None = None  # its sign of life is lost: taken for gone in this long, unless it is heard again


class News(msgspec.Struct, frozen=True):
    """What a node learns when it renews."""

    known: bool  # False: this incarnation was declared dead; all its work belongs to others
    holds: tuple[Ref, ...] = ()  # all attempts that it holds, as the store sees it
    cancels: tuple[tuple[Ref, str], ...] = ()  # those of them that should stop, and why
    term: int | None = None  # of its leadership, if it leads
    feedback: tuple[str, ...] = ()  # queues whose flows are charged for the slots that they use


class Watch:
    """Decides which nodes are dead, from what one observer has seen with its own monotonic clock.

    A node is dead when its process is known to be gone, or when its count of beats has stood still for a whole lease
    *while the observer itself could renew*. Wall clocks play no part, so a clock that jumps kills nobody; and after a
    time in which the store could not be written (so nobody could renew), everyone gets a full lease to be heard again.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float]] = {}

    def dead(self, nodes: Iterable[NodeInfo], now: float, healthy_since: float) -> list[NodeInfo]:
        found: list[NodeInfo] = []
        seen: dict[str, tuple[int, float]] = {}
        for node in nodes:
            beats, since = self._seen.get(node.incarnation, (node.beats, now))
            if beats != node.beats:
                since = now
            seen[node.incarnation] = (node.beats, since)
            silent = now - max(since, healthy_since)
            if node.gone or silent * 1_000_000 > node.lease:
                found.append(node)
        self._seen = seen
        return found

    def soonest(self, nodes: Iterable[NodeInfo], now: float, healthy_since: float) -> float | None:
        """In how many seconds the next of these may be found dead, if nothing is heard of it until then."""
        waits = [
            (node.lease if node.fading is None else node.fading) / 1_000_000
            - (now - max(self._seen[node.incarnation][1], healthy_since) if node.fading is None else 0.0)
            for node in nodes
            if node.incarnation in self._seen
        ]
        return max(0.0, min(waits)) if waits else None

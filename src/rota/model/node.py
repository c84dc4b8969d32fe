"""Nodes of the cluster: their identity, their signs of life, and when they count as dead."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

import msgspec

from rota.model.job import Ref
from rota.model.principal import Principal
from rota.model.times import Duration


class NodeState(StrEnum):
    LIVE = "live"
    STOPPING = "stopping"
    LEFT = "left"
    DEAD = "dead"


class FarAccess(msgspec.Struct, frozen=True):
    """The access key with which a far-away worker has joined."""

    key: str
    user: str


class NewNode(msgspec.Struct, frozen=True):
    """One start of one rota process. The id may be given and come back; the incarnation is new at every start. A node
    with `access` joins through a server: the store holds no lock for it."""

    id: str
    incarnation: str
    roles: tuple[str, ...]
    queues: dict[str, int]  # name -> slots
    version: str
    lease: Duration
    access: FarAccess | None = None


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    incarnation: str
    roles: tuple[str, ...]
    queues: dict[str, int]
    version: str
    state: NodeState
    started_at: datetime
    seen_at: datetime
    lease: Duration
    beats: int  # the number of its renewals; it stands still while the node is silent
    running: int = 0
    leader: bool = False
    gone: bool = False  # its process has certainly ended
    fading: Duration | None = None  # its sign of life is lost: it counts as gone in this long, unless it renews
    access: FarAccess | None = None  # of a far-away worker
    line: str | None = None  # of a far-away worker: the line that it had open when it last renewed

    def seen_by(self, who: Principal) -> NodeInfo:
        """With whose key a worker has joined is for operators."""
        return self if who.operates else msgspec.structs.replace(self, access=None, line=None)


class News(msgspec.Struct, frozen=True):
    """The answer to a renewal."""

    known: bool  # False: this incarnation was declared dead; all its work belongs to others
    holds: tuple[Ref, ...] = ()  # all attempts that it holds by the store's word
    cancels: tuple[tuple[Ref, str], ...] = ()  # attempts that should stop, and why
    term: int | None = None  # of its leadership, if it leads
    feedback: tuple[str, ...] = ()  # queues whose flows are charged for the slots that they use


class Watch:
    """Decides which nodes are dead, from the observations of one node by its own monotonic clock.

    A node is dead when its process is known to be gone, or when its count of beats has stood still for a whole lease
    *while the observer itself could renew*. Wall clocks play no part, so a clock that jumps kills nobody. After a time
    in which the store could not be written, every node gets a full lease to renew.
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
        """The seconds until the first of these nodes may count as dead, if it does not renew."""
        waits = [
            (node.lease if node.fading is None else node.fading) / 1_000_000
            - (now - max(self._seen[node.incarnation][1], healthy_since) if node.fading is None else 0.0)
            for node in nodes
            if node.incarnation in self._seen
        ]
        return max(0.0, min(waits)) if waits else None

"""What a scenario is: faults to do, figures to take from the evidence, and a goal for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.chaos.checker import Finding, Span, check
from tests.chaos.cluster import NODES, Cluster
from tests.chaos.evidence import Evidence, Exit
from tests.servers.postgres import Setting

POSTGRES, SQLITE = "postgres", "sqlite"


def _never(evidence: Evidence, old: Span, new: Span) -> bool:
    return False


def _none(evidence: Evidence, exit: Exit) -> bool:
    return False


def _nothing(evidence: Evidence) -> list[str]:
    return []


@dataclass(frozen=True)
class Scenario:
    name: str
    run: Callable[[Cluster, float], Awaitable[None]]
    measure: Callable[[Evidence], list[float]]  # seconds; see `goal`
    goal: str  # what the figures mean and how large they may be
    limit: float  # that the figure at `part` must keep
    part: float = 0.99
    seconds: float = 30.0  # of faults
    quick: float = 12.0
    profile: str = "heavy"
    client: str = "tests.chaos.load"
    app: str = "tests.chaos.app:app"
    stores: tuple[str, ...] = (POSTGRES,)  # that it can be played on
    slots: int = 8
    nodes: tuple[str, ...] = NODES
    stage: type[Cluster] = Cluster
    standby: bool = False
    settings: dict[str, Setting] = field(default_factory=dict)  # of the server
    excused: Callable[[Evidence, Span, Span], bool] = _never  # overlaps that only fences can make harmless
    may_exit: Callable[[Evidence, Exit], bool] = _none
    skews: dict[str, float] = field(default_factory=dict)  # of the wall clocks of nodes, in seconds
    check: Callable[[Evidence, Callable[[Span, Span], bool]], list[Finding]] = check
    missed: Callable[[Evidence], list[str]] = _nothing  # further goals, those that were missed

    def load(self, seconds: float) -> tuple[str, ...]:
        """The module of the client, and what it is told."""
        return (self.client, self.profile, str(seconds))

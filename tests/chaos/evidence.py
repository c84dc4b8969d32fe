"""Everything that a run leaves behind, as plain values: what the checker and the measurements read."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.chaos.asides import Aside
from tests.chaos.fires import Fires
from tests.chaos.graphs import Step
from tests.chaos.keys import Keys
from tests.chaos.saves import Save
from tests.chaos.scribbles import Scribbles
from tests.chaos.told import Order
from tests.chaos.witness import Line


@dataclass(frozen=True)
class Row:
    """A job as the database has it at the end."""

    job: str
    number: int
    state: str
    fence: int
    crashes: int
    outcome: str | None = None  # of its last attempt; only what has ended has one
    ended: bool = False
    failures: int = 0
    at: float = 0.0  # when it ended, by the wall clock


@dataclass(frozen=True)
class Try:
    """A row of `attempts`: one that did not end its job."""

    job: str
    fence: int
    outcome: str
    at: float = 0.0  # when it ended, by the wall clock


@dataclass(frozen=True)
class Told:
    """The progress that the database has of a job: by which attempt, and what it said."""

    job: str
    fence: int
    text: str


@dataclass(frozen=True)
class Fault:
    at: float  # monotonic, when it began
    kind: str
    node: str = ""
    until: float = 0.0  # when it was over, if it lasted
    pids: tuple[int, ...] = ()  # those that it struck, if not the node itself


@dataclass(frozen=True)
class Exit:
    """A process that ended without having been told to."""

    node: str
    code: int
    at: float


@dataclass
class Evidence:
    told: dict[int, Order] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    tries: list[Try] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    exits: list[Exit] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)  # processes that outlived their nodes
    fires: Fires = field(default_factory=Fires)  # of runs with schedules
    keys: Keys = field(default_factory=Keys)  # of runs with limits
    graph: dict[int, Step] = field(default_factory=dict)  # of runs with workflows
    saves: list[Save] = field(default_factory=list)  # of runs in which executors crash
    progress: list[Told] = field(default_factory=list)
    asides: list[Aside] = field(default_factory=list)  # of runs with far-away workers
    said: dict[tuple[str, int], str] = field(default_factory=dict)  # stdout by job and fence, of the same runs
    scribbles: dict[tuple[str, int], Scribbles] = field(default_factory=dict)  # by job and fence, of runs about output
    notes: list[str] = field(default_factory=list)  # what a person should know

    def of(self, *kinds: str) -> list[Fault]:
        return [fault for fault in self.faults if fault.kind in kinds]

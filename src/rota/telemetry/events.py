"""The events of a node, and the bus that carries them. Logging and metrics are subscribers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import msgspec

from rota.model.outcome import Problem
from rota.model.times import Duration


class Event(msgspec.Struct, frozen=True):
    pass


class NodeStarted(Event, frozen=True):
    id: str
    roles: tuple[str, ...]
    queues: dict[str, int]
    store: str
    tasks: int


class NodeStopping(Event, frozen=True):
    running: int
    grace: float


class NodeHurried(Event, frozen=True):
    running: int


class NodeStopped(Event, frozen=True):
    id: str


class LeaseLost(Event, frozen=True):
    id: str
    why: str


class NodeDied(Event, frozen=True):
    """Another node was found dead."""

    id: str
    why: str
    jobs: int


class JobsRescued(Event, frozen=True):
    jobs: int


class UnofferedSetAside(Event, frozen=True):
    """Jobs of a task that no node has ever offered went to the dead letters."""

    task: str
    jobs: int
    grace: Duration


class ScheduleSetAside(Event, frozen=True):
    """It can't be read, and won't fire until it is changed."""

    owner: str
    name: str
    why: str


class ScheduleDeclared(Event, frozen=True):
    """The code of an app has changed a schedule. `how`: added, changed, moved (to another module), back (declared
    again) or removed."""

    owner: str
    name: str
    app: str
    module: str | None
    how: str


class SchedulesUndeclared(Event, frozen=True):
    """A node of the app does not declare them; they go on until a person removes them."""

    owner: str
    app: str
    names: tuple[str, ...]
    why: str


class AttemptStarted(Event, frozen=True):
    job_id: str
    task: str
    number: int


class AttemptEnded(Event, frozen=True):
    job_id: str
    task: str
    number: int
    outcome: str
    reason: str | None
    goes_on: bool  # there will be another attempt
    error: Problem | None = None


class AttemptStale(Event, frozen=True):
    """An attempt's last write was refused: it has lost its job."""

    job_id: str
    fence: int


class AttemptStuck(Event, frozen=True):
    job_id: str
    task: str


class TasksInThreads(Event, frozen=True):
    """Functions that another process can't import run in threads of this one."""

    tasks: tuple[str, ...]
    why: str


class PoolFailed(Event, frozen=True):
    error: str
    pause: float


class PoolSaid(Event, frozen=True):
    """A process of the pool wrote something while no job ran in it."""

    text: str


class HookFailed(Event, frozen=True):
    """A `process.stop` hook of the node failed, or its hooks took too long."""

    error: str


class MigrationWaits(Event, frozen=True):
    """A migration waits for transactions of others."""

    line: str


class SpoolFailed(Event, frozen=True):
    """Output is not spooled for a while; jobs and their output go on."""

    error: str


class OutputRecovered(Event, frozen=True):
    """Output of attempts that a dead node had left in its spool is in the store."""

    attempts: int
    size: int


class OutputAside(Event, frozen=True):
    """Output in a spool can't be read, or the store can't hold it."""

    folder: str
    why: str


class ServiceFailed(Event, frozen=True):
    service: str
    error: str


class StoreSaid(Event, frozen=True):
    """A part of the store that it can do without is away, or is back."""

    line: str


class ServiceStuck(Event, frozen=True):
    """A tick hung, was cancelled, and is tried again."""

    service: str
    seconds: float


class LoopBlocked(Event, frozen=True):
    """The node's own loop is blocked."""

    seconds: float


class LinesDropped(Event, frozen=True):
    """A log was written too slowly: this many events are missing in it."""

    events: int


class ApiServing(Event, frozen=True):
    url: str


class ApiNotServed(Event, frozen=True):
    """The default port is taken: the node goes on without the HTTP API."""

    port: int


class CertificateChanged(Event, frozen=True):
    """The files of the certificate have changed. `trouble`: why they can't be used, so the former one is served on."""

    trouble: str | None


class RequestFailed(Event, frozen=True):
    """The HTTP API met an error that nobody expected. The caller was told the incident alone."""

    incident: str
    method: str
    path: str
    trace: str


class NodeGaveUp(Event, frozen=True):
    """One of its loops makes no progress: the node ends, so that others take over."""

    id: str
    why: str


Subscriber = Callable[[Event], None]


class OutputEcho(Protocol):
    """Also takes the output of one attempt, in the thread that has read it: it must not wait."""

    def write(self, stream: str, body: bytes) -> None: ...

    def close(self) -> None: ...


class Bus:
    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []
        self.hears_every_attempt = False
        # Makes an echo of an attempt, by the id of its job, task and number. Output is no event: it comes by the MB.
        self.echo: Callable[[str, str, int], OutputEcho] | None = None

    def subscribe(self, subscriber: Subscriber, every_attempt: bool = True) -> None:
        """Starts and successes of attempts go only to subscribers with `every_attempt`: they come by the thousand."""
        self._subscribers.append(subscriber)
        self.hears_every_attempt |= every_attempt

    def emit(self, event: Event) -> None:
        for subscriber in self._subscribers:
            with suppress(Exception):  # a failing subscriber (a log that can't be written) must not fail the node
                subscriber(event)

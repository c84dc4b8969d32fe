"""The contract of a lane: one server of the hot tier, as one event loop of this process uses it.

A lane keeps three things for a store: the heap of jobs that will be due soon, the latest news of running jobs, and a
channel for wake-ups. All of it may vanish at any moment. Every call raises `HotAway` if the server gave no answer in
time, and `HotRefused` if it answered that it can't do this; a call that raised may have been carried out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rota.model.times import Instant


class HotAway(Exception):
    """No connection, or no answer in time."""


class HotRefused(Exception):
    """The server is there, and can't be used, or not for this: a wrong password, an old version, a replica, full
    memory, the hot tier of another store."""


class Due(NamedTuple):
    job: str
    at: Instant


class Added(NamedTuple):
    earliest: bool  # one of the added entries is earlier than all that stood there before
    epoch: str  # of the heap; "": nobody has filled it since it was empty


class Look(NamedTuple):
    epoch: str
    due: list[Due]  # the earliest first
    upcoming: Instant | None  # of the first entry that is not in `due`


class Report(NamedTuple):
    """The latest news of one job, as bytes that only their writers and readers understand."""

    job: str
    version: tuple[int, int]  # a later one replaces an earlier one, never the other way round: (fence, number)
    content: bytes


class LaneState(NamedTuple):
    server: str  # such as `Valkey 9.1.2`
    epoch: str
    entries: int
    reports: int
    memory: int | None  # bytes that the server uses, for everyone; None: unknown
    most: int | None  # bytes that it may use; None: no bound


class Lane(ABC):
    """Belongs to one event loop. It is opened before all other calls, and again after it was away."""

    place: str  # its address, without passwords

    @abstractmethod
    async def open(self, store: str) -> None:
        """Connects, and checks that the server can be used and is nobody else's. `store`: the id of the store, at most
        40 letters and digits. All keys stand under a prefix with it, and a server that already serves a store with
        another id is refused."""

    # -- the heap of due jobs ----------------------------------------------------------------------------------------
    @abstractmethod
    async def add_due(self, entries: Sequence[Due]) -> Added:
        """Adds jobs, or moves those that stand there to their new time."""

    @abstractmethod
    async def look(self, until: Instant, limit: int) -> Look:
        """The first entries that are due at `until`, at most `limit`. They stay where they are."""

    @abstractmethod
    async def drop_due(self, entries: Sequence[Due]) -> None:
        """Takes entries out, unless they were moved to another time."""

    @abstractmethod
    async def begin_epoch(self, epoch: str) -> None:
        """Marks the heap as filled."""

    @abstractmethod
    async def page_due(self, after: Due, limit: int) -> list[Due]:
        """The next entries after this one by (time, job), at most `limit`; the first page is after `Due("", 0)`."""

    # -- the latest news of running jobs -----------------------------------------------------------------------------
    @abstractmethod
    async def report(self, reports: Sequence[Report], life: float, most: int) -> None:
        """Keeps reports for `life` seconds, and never in place of a later version. `most`: bytes of all reports; those
        that were written least recently leave first."""

    @abstractmethod
    async def reports(self, jobs: Sequence[str]) -> list[Report | None]:
        """The reports of jobs, in the order of the jobs."""

    # -- wake-ups ----------------------------------------------------------------------------------------------------
    @abstractmethod
    async def publish(self, text: str) -> None:
        """Sends a text to all subscribers, this process among them."""

    @abstractmethod
    async def subscribe(self, hear: Callable[[str], None], lost: Callable[[], None]) -> None:
        """From now on `hear` is called with each text, on this loop, until the connection ends: then `lost` is called
        once. A second call replaces the first."""

    # -- life --------------------------------------------------------------------------------------------------------
    @abstractmethod
    async def state(self) -> LaneState: ...

    @abstractmethod
    async def close(self) -> None:
        """Ends the connections; calls under way raise `HotAway`."""

    @abstractmethod
    def drop(self) -> None:
        """Closes the sockets directly: the loop was closed."""

    @abstractmethod
    def descriptors(self) -> Iterable[int]:
        """Of the sockets."""

"""The state of keys: holders, used tokens of a rate, and the room that is left.

Jobs that wait for a key form a *line*, in the order of rank. A start takes a token of a rate; the token counts for
`late + window` from its claim on, because the start may happen up to `late` after the claim. A job that waits for
several keys reserves a place of each: jobs that rank more than nine ageing steps behind it must leave it room. Without
that, two busy keys that become free in turn would never be free for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rota.model.limits import KEPT_STARTS, RUNNING_QUOTA, Key, Limit, Rate, effective
from rota.model.rank import LEAST_URGENT
from rota.model.requirements import read_requirements
from rota.model.times import Duration, Instant

LARGEST = (1 << 63) - 1
NO_BOUND = 1 << 40  # how many of a line go on if its key has no bound

KeyId = tuple[str, str]  # owner, name


def line(owner: str, key: str) -> str:
    """The value of `held_by` for a job that waits for the key."""
    return f"k:{owner}:{key}"


def waits_for(key: str) -> str:
    return "waits for the quota of running jobs" if key == RUNNING_QUOTA else f"waits for key {key}"


def reserved_from(rank: int, step: Duration) -> int:
    """The rank behind which jobs leave room for a job of this rank that waits for several keys."""
    return min(rank + LEAST_URGENT * step, LARGEST)


def token_counts(at: Instant, late: Duration, window: Duration, now: Instant) -> bool:
    """Whether a token taken at this instant still counts for a job with this window."""
    return at + late + window > now


class Reservation(NamedTuple):
    rank: int  # jobs that rank behind it must leave room
    job: str


class KeyState:
    """A key as stored, and the slots and tokens that the current write has taken.

    `kept`: how long the latest token is kept (None: no token). `reserved`: the best two reservations of jobs in a line:
    a job's own reservation does not count for itself."""

    def __init__(
        self,
        limit: Limit | None,
        numbers: Iterable[int] = (),
        kept: Duration | None = None,
        reserved: Sequence[Reservation] = (),
    ) -> None:
        self.limit, self.numbers, self._reserved = limit, set(numbers), list(reserved)
        self.started, self.kept = kept is not None, max(kept or 0, KEPT_STARTS)
        self._used: dict[Duration, int] = {}  # tokens, by the window in which they count
        self._lowest = 1

    def count(self, window: Duration | None, tokens: int) -> None:
        if window is not None:
            self._used[window] = tokens

    def room(self, key: Key, job: str, rank: int) -> int | None:
        """How many more jobs may hold the key and start now, from the view of this job; None: any number. `key`: as the
        job brings it along."""
        counts = effective(key, self.limit)
        rooms = [] if counts.concurrency is None else [counts.concurrency - len(self.numbers)]
        rooms += [] if counts.rate is None else [counts.rate.count - self._used[counts.rate.window]]
        reserved = any(one.rank < rank and one.job != job for one in self._reserved)
        return min(rooms) - reserved if rooms else None

    def reserve(self, reservation: Reservation) -> None:
        self._reserved.append(reservation)

    def start(self, rate: Rate) -> bool:
        """Takes a token; True if it was the last."""
        self._used = {window: tokens + 1 for window, tokens in self._used.items()}
        return self._used[rate.window] >= rate.count

    def take(self) -> int:
        """Takes the lowest free slot number. No slot is given back within a write."""
        while self._lowest in self.numbers:
            self._lowest += 1
        self.numbers.add(self._lowest)
        return self._lowest


class Line(NamedTuple):
    """Jobs that wait for a key: how many were released and not claimed yet, and the first that still waits."""

    name: str
    on_way: int
    owner: str
    requirements: str | None
    job: str
    rank: int

    @property
    def key(self) -> Key:
        """The key as the first waiter brings it along; without bounds if it does not."""
        name = self.name.removeprefix(line(self.owner, ""))
        return next((key for key in read_requirements(self.requirements).keys if key.name == name), Key(name))

    @property
    def needs_key(self) -> bool:
        """False: its requirements were changed meanwhile. A quota has no bound once it is lifted."""
        return self.key.name == RUNNING_QUOTA or self.key in read_requirements(self.requirements).keys


def going_on(waiting: Line, key: Key, state: KeyState) -> int:
    """How many jobs of a line may go on at most; none if this is not positive. Released jobs take a place each."""
    room = state.room(key, waiting.job, waiting.rank) if waiting.needs_key else None
    return NO_BOUND if room is None else room - waiting.on_way


def looks_back(key: Key, state: KeyState) -> Duration | None:
    """The window for which tokens must be kept from now on; None if they are kept for long enough."""
    rate = effective(key, state.limit).rate
    return rate.window if rate is not None and rate.window > state.kept else None


States = Mapping[KeyId, KeyState]

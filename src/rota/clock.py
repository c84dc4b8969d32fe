"""The only source of time, chance and ids.

Decisions never call `time.time()`, `random` or `uuid4` themselves: they are handed a `Clock` and a `Chance`, so that
a test can set the time and a simulation can repeat a run from its seed.
"""

from __future__ import annotations

import os
import random
import secrets
import threading
import time
import weakref
from typing import Protocol


class Clock(Protocol):
    def now(self) -> int:
        """Wall time in microseconds since 1970, UTC: what the store judges due times by."""

    def monotonic(self) -> float:
        """Seconds that only ever rise and count suspended time too: for local deadlines and leases."""


class SystemClock:
    # CLOCK_BOOTTIME goes on while the machine sleeps: a laptop that wakes up must not believe its lease is fresh.
    _boot = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def now(self) -> int:
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        return time.clock_gettime(self._boot)


class ManualClock:
    """Time that stands still until it is told to move."""

    def __init__(self, now: int = 1_800_000_000_000_000) -> None:
        self._now = now
        self._elapsed = 0.0

    def now(self) -> int:
        return self._now

    def monotonic(self) -> float:
        return self._elapsed

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("time does not run backwards; use jump() to set the wall clock back")
        self._now += round(seconds * 1_000_000)
        self._elapsed += seconds

    def jump(self, seconds: float) -> None:
        """Moves the wall clock alone, as an administrator or a time server might."""
        self._now += round(seconds * 1_000_000)


_unforked: weakref.WeakSet[Chance] = weakref.WeakSet()


class Chance:
    """Random numbers and ids from one seed (or from the system's entropy)."""

    def __init__(self, seed: int | None = None) -> None:
        self._bits = random.Random(seed if seed is not None else random.SystemRandom().getrandbits(128))
        self._seeded = seed is not None
        # A forked child would go on with its parent's numbers, and two processes would share an incarnation.
        if seed is None:
            _unforked.add(self)
        self._last = 0
        self._lock = threading.Lock()

    def _reseed(self) -> None:
        self._bits = random.Random(random.SystemRandom().getrandbits(128))
        self._lock = threading.Lock()

    def random(self) -> float:
        return self._bits.random()

    def job_id(self, now: int) -> str:
        return self.job_ids(now, 1)[0]

    def job_ids(self, now: int, count: int) -> list[str]:
        """UUIDv7s that rise within this process, so that ids of one submitter sort in the order of submission."""
        with self._lock:
            # 48 bits of milliseconds and 12 bits of their fraction make one rising 60-bit number.
            stamp = (now // 1000 << 12) | (now % 1000 << 12) // 1000
            first = max(stamp, self._last + 1)
            self._last = first + count - 1
            bits = self._bits.getrandbits
            return [_uuid7(stamp, bits(62)) for stamp in range(first, first + count)]

    def secret(self) -> bytes:
        """256 bits that nobody can guess, also from other numbers of this process. From a seed they are the same each
        time, as tests want it."""
        if not self._seeded:
            return secrets.token_bytes(32)
        with self._lock:
            return self._bits.randbytes(32)

    def token(self) -> str:
        """A short random name, for node incarnations."""
        with self._lock:
            return f"{self._bits.getrandbits(48):012x}"


def _uuid7(stamp: int, low: int) -> str:
    high = f"{stamp >> 12:012x}"
    return f"{high[:8]}-{high[8:]}-7{stamp & 0xFFF:03x}-{0x8000 | low >> 48:04x}-{low & 0xFFFFFFFFFFFF:012x}"


def _after_fork() -> None:
    for chance in _unforked:
        chance._reseed()


os.register_at_fork(after_in_child=_after_fork)

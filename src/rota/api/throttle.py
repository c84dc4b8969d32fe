"""Wrong keys, counted by address and by the beginning of the key.

A key has so much chance in it that guessing is hopeless at any speed. The throttle is for what remains: a program with
an old key that calls all day, and the lookups and log lines that guessing would cost. Only wrong keys are refused by
it. A right key is never locked out, whoever shares its address.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from math import ceil

from rota.clock import Clock

FREE = 10.0  # wrong keys at once, before the caller is told to wait
PER_SECOND = 0.2  # as many are forgiven
LONGEST_WAIT = 60.0
MOST_NAMES = 10_000  # remembered; the one that was quiet longest is forgotten


class Throttle:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: OrderedDict[str, tuple[float, float]] = OrderedDict()  # the count, and when it was

    def failed(self, names: Iterable[str]) -> int:
        """Counts a wrong key under each name. Returns the seconds that the caller must wait; 0: none yet."""
        now = self._clock.monotonic()
        return max(self._count(name, now) for name in names)

    def _count(self, name: str, now: float) -> int:
        count, at = self._seen.pop(name, (0.0, now))
        count = min(max(0.0, count - (now - at) * PER_SECOND) + 1, FREE + LONGEST_WAIT * PER_SECOND)
        self._seen[name] = count, now
        if len(self._seen) > MOST_NAMES:
            self._seen.popitem(last=False)
        return ceil((count - FREE) / PER_SECOND) if count > FREE else 0


def neighbourhood(address: str) -> str:
    """An IPv4 address, or the /64 network of an IPv6 address, within which a machine may choose."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped:
            return str(found.ipv4_mapped)
        return f"{IPv6Address(int(found) >> 64 << 64)}/64"
    return address

"""Bounds on the resources of one command.

Each bound applies to a process (CPU time, memory, open files, size of a file). `processes` applies to the whole
command, and so does `memory` where control groups bound it. A node has bounds of its own; an order can only tighten
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from rota.errors import InvalidInput
from rota.model.rank import DEFAULT_PRIORITY
from rota.model.times import DAY, SECOND, Duration, duration

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
# With less than this no program can be loaded, and its start fails with misleading errors.
LEAST_MEMORY = 4 * MIB
LEAST_FILES = 8
MOST_BYTES = 1 << 60
MOST_COUNT = 1 << 30
MOST_CPU: Duration = 10_000 * DAY
GENTLEST = 19

_UNITS = {
    "": 1, "B": 1, "K": KIB, "M": MIB, "G": GIB, "T": GIB << 10,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": KIB, "MIB": MIB, "GIB": GIB, "TIB": GIB << 10,
}  # fmt: skip
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,6})?)\s*([a-z]{0,3})", re.ASCII | re.IGNORECASE)


class Resources(msgspec.Struct, frozen=True, omit_defaults=True):
    """None: no bound."""

    cpu: Duration | None = None
    memory: int | None = None  # bytes
    files: int | None = None  # open at a time
    processes: int | None = None
    file_size: int | None = None  # bytes
    nice: int | None = None  # 0 to 19; None: by the job's priority

    def tightened(self, other: Resources) -> Resources:
        """The lower of each bound; of `nice` the higher one."""
        lower = {name: _of(min, getattr(self, name), getattr(other, name)) for name in BOUNDS}
        return Resources(**lower, nice=_of(max, self.nice, other.nice))


NO_BOUNDS = Resources()
BOUNDS = ("cpu", "memory", "files", "processes", "file_size")


def _of(choose: Callable[[list[int]], int], *given: int | None) -> int | None:
    there = [value for value in given if value is not None]
    return choose(there) if there else None


def resources(given: object) -> Resources:
    """Reads a mapping with texts such as `512MB` and `30s`, or checks a value that was read already."""
    if isinstance(given, Resources):
        return _checked(given)
    if not isinstance(given, Mapping):
        raise InvalidInput("resources", given, "bounds such as {'memory': '512MB', 'cpu': '30s'}")
    for name in given:
        if name not in READERS:
            raise InvalidInput("resources", name, f"one of {', '.join(READERS)}")
    read = {name: READERS[name](value, name) for name, value in given.items() if value is not None}
    return Resources(**read) if read else NO_BOUNDS


def _checked(given: Resources) -> Resources:
    """Checks a value from JSON, which may have been written by anyone."""
    values: dict[str, Any] = {name: getattr(given, name) for name in READERS}
    if isinstance(values["cpu"], int) and not isinstance(values["cpu"], bool):
        values["cpu"] = values["cpu"] / SECOND  # a plain number means seconds
    return resources(values)


def size(given: object, what: str = "size", least: int = 1, most: int = MOST_BYTES) -> int:
    """Reads `512MB` (10⁶), `2GiB` or `2G` (2³⁰), or a plain number of bytes."""
    expected = "a size such as 512MB or 2GiB"
    value: float = -1
    if isinstance(given, int) and not isinstance(given, bool):
        value = given
    elif isinstance(given, str) and (found := _SIZE.fullmatch(given.strip())) and found[2].upper() in _UNITS:
        number, unit = found[1], _UNITS[found[2].upper()]
        value = float(number) * unit if "." in number else int(number) * unit
    if value < 0:
        raise InvalidInput(what, given, expected)
    if not least <= value <= most:
        bound = f"at least {size_text(least)}" if value < least else f"at most {size_text(most)}"
        raise InvalidInput(what, given, f"{expected}, {bound}")
    return int(value)


def size_text(count: int) -> str:
    """`512MiB`, `1GB`: the shortest that is exact."""
    for unit in ("TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB", "KB"):
        if count and count % _UNITS[unit.upper()] == 0:
            return f"{count // _UNITS[unit.upper()]}{unit}"
    return f"{count}B"


def cpu_time(given: object, what: str = "cpu") -> Duration:
    span = duration(given, what)
    if not 0 < span <= MOST_CPU:
        raise InvalidInput(what, given, "a duration longer than 0s, such as 30s or 5m")
    return span


def count(least: int, most: int) -> Callable[[object, str], int]:
    def read(given: object, what: str) -> int:
        number = given
        if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < 20:
            number = int(given)
        if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
            raise InvalidInput(what, given, f"a whole number from {least} to {most}")
        return number

    return read


READERS: dict[str, Callable[[object, str], int]] = {
    "cpu": cpu_time,
    "memory": lambda given, what: size(given, what, LEAST_MEMORY),
    "files": count(LEAST_FILES, MOST_COUNT),
    "processes": count(1, MOST_COUNT),
    "file_size": lambda given, what: size(given, what, 0),
    "nice": count(0, GENTLEST),
}


def niceness(priority: int) -> int:
    """Less urgent work yields the processor. Negative values would need privileges and take the processor from the
    node."""
    return max(0, priority - DEFAULT_PRIORITY)

"""What a run with limits leaves behind: which keys each job says it needs, and how limits were changed meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.chaos.witness import KEYS

CHANGES = "changes"
# What each job brings along: how many may run at once,
MUTEXES = tuple(f"mutex-{letter}" for letter in "abcd")
PAIR = ("left", "right")  # needed by some jobs together
POOL, LANE = "pool", "lane"  # the lane is made wider and narrower
AT_ONCE = {**dict.fromkeys((*MUTEXES, *PAIR), 1), POOL: 3, LANE: 3}
# or how many may start in any window of so many seconds.
STARTS = {"api": (30, 3.0), "mail": (6, 1.0)}


@dataclass(frozen=True)
class Change:
    """A limit that a person set, and when that was asked for and answered, by the monotonic clock."""

    key: str
    at_once: int
    asked: float
    answered: float
    ok: bool = True  # otherwise nobody knows


@dataclass
class Keys:
    needed: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by job, in its own words
    changes: list[Change] = field(default_factory=list)

    def jobs(self, key: str) -> set[str]:
        return {job for job, keys in self.needed.items() if key in keys}

    def at_once(self, key: str, since: float, until: float) -> int:
        """The most that may have been allowed at any moment in between."""
        possible = {AT_ONCE[key]}
        for change in self.changes:
            if change.key != key or change.asked > until:
                continue
            if change.ok and change.answered < since:
                possible.clear()
            possible.add(change.at_once)
        return max(possible)


def write(change: Change) -> str:
    return json.dumps(asdict(change))


def read(noted: Iterable[str], changes: Iterable[str]) -> Keys:
    words = [line.split() for line in noted]
    return Keys(
        {job: tuple(keys.split(",")) for job, keys in words},
        [Change(**json.loads(line)) for line in changes],
    )


def read_files(folder: Path) -> Keys:
    noted, changes = (_lines(folder / name) for name in (f"witness{KEYS}", CHANGES))
    return read(noted, changes)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []

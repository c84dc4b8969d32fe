"""Fires against the instants that a schedule names: I6, with I7's times.

The rule itself is worked out elsewhere: the simulation takes its instants from the evaluator that I21 holds against an
independent one, the chaos runs from plain arithmetic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from tests.checks.breach import DOUBLED, MISCOUNTED_SKIPS, MISSED, STRAY, WHILE_PAUSED, Breach
from tests.checks.orders import early

SECOND = 1_000_000


@dataclass(frozen=True)
class Skipped:
    """A run of fires that was recorded as skipped."""

    first: int
    last: int
    count: int | None

    def has(self, fire: int) -> bool:
        return self.first <= fire <= self.last


class Made:
    """The fires that were made, each by its schedule and instant."""

    def __init__(self) -> None:
        self._made: set[tuple[str, int]] = set()

    def make(self, name: str, fire: int) -> Breach | None:
        again = (name, fire) in self._made
        self._made.add((name, fire))
        return Breach("I6", DOUBLED, f"{name} fired twice for {fire}") if again else None


def fired(name: str, fire: int, at: int, named: bool, paused: bool) -> Iterator[Breach]:
    """A fire by the rule. `at`: when it was made. `named`: the rule names this instant. `paused`: for certain."""
    if paused:
        yield Breach("I6", WHILE_PAUSED, f"{name} is paused, and fired for {fire}")
    if not named:
        yield Breach("I6", STRAY, f"{name} fired for {fire}, which its rule does not name")
    if breach := early(at, fire, unit=SECOND):
        yield breach._replace(text=f"{name} fired for {fire}, {breach.text}")


def counted(name: str, skip: Skipped, must: Iterable[int], may: Iterable[int]) -> Breach | None:
    """A run of skips says how many fires it has. `must`: instants that are named for certain; `may`: with those in
    doubt."""
    least, most = (sum(map(skip.has, some)) for some in (must, may))
    if skip.count is not None and least <= skip.count <= most:
        return None
    run = f"{skip.count} from {skip.first} to {skip.last}"
    return Breach("I6", MISCOUNTED_SKIPS, f"{name} skipped {run}: its rule names {least} to {most}")


def missed(
    name: str, must: Iterable[int], made: Collection[int], skips: Collection[Skipped], all_made: bool = False
) -> Iterator[Breach]:
    """Each instant that is named for certain is made or skipped. `all_made`: no skip is right."""
    for fire in sorted(must):
        if fire not in made and (all_made or not any(skip.has(fire) for skip in skips)):
            yield Breach("I6", MISSED, f"{name} was to fire for {fire}, and neither did nor said why not")


def both(name: str, instants: Iterable[int], made: Collection[int], skips: Collection[Skipped]) -> Iterator[Breach]:
    """No instant is made and skipped too, nor skipped twice."""
    for fire in sorted(instants):
        skipped = sum(skip.has(fire) for skip in skips)
        if skipped + (fire in made) > 1:
            yield Breach("I6", DOUBLED, f"{name} at {fire}: made {fire in made}, skipped {skipped} times")

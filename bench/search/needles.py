"""Lines that are looked for. Which number of line holds which needle is plain arithmetic, so their counts are exact.

No program prints these words by itself. Each needle has a last digit of its own among the numbers of lines, so none
takes the place of another.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Iterator

COMMON, COMMON_EVERY = "reconnected", 10  # a tenth of all lines
MEDIUM, MEDIUM_EVERY = "throttled", 1_000
RARE, RARE_LINES = "zugzwang", 5
PHRASE, PHRASE_LINES = "replica lost quorum", 20
ASTRAY, ASTRAY_EVERY = "quorum of the lost replica", 1_000  # the words of the phrase, but not the phrase
REQUEST, REQUEST_LINES = "req-5f0c2a9e77d1b384", 7


class Needles:
    """All needles of a corpus of so many lines, in the order of their lines."""

    def __init__(self, lines: int) -> None:
        self._rest = heapq.merge(_common(lines), sorted(_planted(lines)))
        self._next()

    def _next(self) -> None:
        self._number, self._message = next(self._rest, (sys.maxsize, ""))

    def put(self, first: int, printed: list[str], say: Callable[[str], str]) -> None:
        """Into these lines, of which the first has this number; callers come from the front to the end."""
        while (place := self._number - first) < len(printed):
            printed[place] = say(self._message)
            self._next()


def _common(lines: int) -> Iterator[tuple[int, str]]:
    for number in range(7, lines, COMMON_EVERY):
        yield (
            number,
            f"connection {number % 89} to db-{number % 5}.internal:5432 {COMMON} after {number * 7919 % 3000} ms",
        )


def _planted(lines: int) -> Iterator[tuple[int, str]]:
    for number in range(3, lines, MEDIUM_EVERY):
        yield number, f"queue {number % 13} {MEDIUM} to {number % 97} jobs a minute"
    for number in range(505, lines, ASTRAY_EVERY):
        yield number, f"{ASTRAY} {number} was restored"
    for ten in _spread(lines, RARE_LINES):
        yield ten + 1, f"planner is in {RARE} with {ten % 7} moves left"
    for ten in _spread(lines, PHRASE_LINES):
        yield ten + 2, f"{PHRASE} in zone {ten % 3}, reads only"
    for ten in _spread(lines, REQUEST_LINES):
        yield ten + 9, f"request {REQUEST} was passed on to step {ten % 11}"


def _spread(lines: int, count: int) -> list[int]:
    """Whole tens, evenly from the first to the last line."""
    return [lines * place // count // 10 * 10 for place in range(count)]


def count_of(word: str, lines: int) -> int:
    """How many lines of a corpus of so many lines, 200 or more, hold this needle."""
    return {
        COMMON: len(range(7, lines, COMMON_EVERY)),
        MEDIUM: len(range(3, lines, MEDIUM_EVERY)),
        RARE: RARE_LINES,
        PHRASE: PHRASE_LINES,
        REQUEST: REQUEST_LINES,
    }[word]

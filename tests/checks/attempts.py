"""Attempts, each of which begins once and ends once: I3."""

from __future__ import annotations

from collections.abc import Hashable

from tests.checks.breach import DOUBLE, UNPROVEN, Breach

Attempt = tuple[str, int]  # job and fence


class Attempts:
    def __init__(self) -> None:
        self.begun: set[Attempt] = set()
        self.ended: set[Attempt] = set()
        self._succeeded: set[Hashable] = set()

    def begin(self, attempt: Attempt) -> Breach | None:
        again = attempt in self.begun
        self.begun.add(attempt)
        return _twice(attempt, "started") if again else None

    def end(self, attempt: Attempt) -> Breach | None:
        """By the store's word."""
        again = attempt in self.ended
        self.ended.add(attempt)
        return _twice(attempt, "ended") if again else None

    def succeed(self, job: str) -> Breach | None:
        again = job in self._succeeded
        self._succeeded.add(job)
        return Breach("I3", DOUBLE, f"{job} succeeded twice") if again else None


def _twice(attempt: Attempt, what: str) -> Breach:
    job, fence = attempt
    return Breach("I3", DOUBLE, f"{job}: attempt {fence} was {what} twice")


def proven(attempt: Attempt, succeeded: bool, how: str = "") -> Breach | None:
    """A success by the store's word is one by the word of its attempt too."""
    if succeeded:
        return None
    job, fence = attempt
    return Breach("I3", UNPROVEN, f"{job} succeeded by fence {fence}, whose work has ended as {how or 'nobody knows'}")


def final(job: str, fence: int, latest: int) -> Breach | None:
    """The fence that ended a job is the highest that anybody has seen of it."""
    if latest <= fence:
        return None
    return Breach("I3", DOUBLE, f"{job} was ended by fence {fence}, and attempt {latest} of it is known")

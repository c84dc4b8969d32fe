"""What follows a crash: I11. The first is made up for at once, the next after a pause, the last ends in quarantine."""

from __future__ import annotations

from collections.abc import Iterable

from tests.checks.breach import FAILED, HASTY, MISCOUNTED, SPARED, Breach

LIMIT = 3
PAUSE = 5.0
CRASHED = "crashed"
FAILURES = ("failed", "timed_out")


def counted(crashes: int, failures: int, outcomes: Iterable[str | None]) -> Breach | None:
    """The counts of a job against the outcomes of its attempts."""
    outcomes = list(outcomes)
    true = (outcomes.count(CRASHED), sum(outcome in FAILURES for outcome in outcomes))
    if (crashes, failures) == true:
        return None
    return Breach("I11", MISCOUNTED, f"{crashes} crashes and {failures} failures; attempts: {true[0]} and {true[1]}")


def bounded(crashes: int, limit: int = LIMIT) -> Breach | None:
    return Breach("I11", MISCOUNTED, f"it has crashed {crashes} times") if crashes > limit else None


def quarantined(crashes: int, dead: bool, limit: int = LIMIT) -> Breach | None:
    """`dead`: a crash ended the job. It does if, and only if, it is the last one that is allowed."""
    if dead == (crashes >= limit):
        return None
    kind, how = (FAILED, "dead") if dead else (SPARED, "alive")
    return Breach("I11", kind, f"{how} after crash {crashes}")


def paused(crashes: int, wait: float, pause: float = PAUSE, slack: float = 0.0) -> Breach | None:
    """`wait`: from the crash to the next attempt."""
    if crashes <= 1 or wait >= pause - slack:
        return None
    return Breach("I11", HASTY, f"it came back {wait:.3f} s after crash {crashes}")

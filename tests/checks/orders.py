"""Orders against jobs: I1 (nothing lost, nothing made up) and I13 (one key, one job, one answer), with I7's times."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tests.checks.breach import DOUBLE, EARLY, LOST, MADE_UP, Breach

OK, REFUSED, UNKNOWN = "ok", "refused", "unknown"


def answered(verdict: str, told: Collection[str], there: Collection[str], why: str = "") -> Iterator[Breach]:
    """`told`: the ids that the client was told for one order. `there`: the jobs that the store has for it."""
    ids, found = ", ".join(sorted(told)), ", ".join(sorted(there))
    if verdict == OK and not there:
        yield Breach("I1", LOST, f"accepted as {ids}, and not there")
    elif verdict == OK and not set(there) & set(told):
        yield Breach("I13", LOST, f"accepted as {ids}, there as {found}")
    elif verdict == REFUSED and there:
        yield Breach("I1", MADE_UP, f"refused ({why}), and there as {found}")
    if len(told) > 1:
        yield Breach("I13", DOUBLE, f"one order, answered with {ids}")


def single(there: Collection[str]) -> Breach | None:
    """One order, or one key, makes one job at most."""
    return Breach("I13", DOUBLE, f"there {len(there)} times: {', '.join(there)}") if len(there) > 1 else None


def over(job: str, state: str, ended: bool) -> Breach | None:
    """When all work has settled."""
    return None if ended else Breach("I1", LOST, f"{job} never ended: still {state}")


def early(at: float, due: float, slack: float = 0, unit: float = 1) -> Breach | None:
    """`slack`: by how much the two clocks that were read may differ. `unit`: of a second."""
    if at >= due - slack:
        return None
    return Breach("I7", EARLY, f"{(due - at) / unit:.6f} s before its time")

"""Saved states against the states that later attempts found: I12 and I3."""

from __future__ import annotations

from collections.abc import Collection

from tests.checks.breach import BACK, Breach

State = tuple[int, int]  # the fence of the attempt that saved it, and how often that had saved


def found(
    state: State | None, fence: int, asked: Collection[State], kept: Collection[State], since: int = 0
) -> Breach | None:
    """An attempt finds the newest state that was acknowledged, or a newer one that was asked for; never a state that
    nobody before it asked to keep. `since`: the fence of the last success, after which jobs begin anew."""
    before = {one for one in asked if since < one[0] < fence}
    surely = {one for one in kept if since < one[0] < fence}
    if state is not None and state not in before:
        return Breach("I3", BACK, f"it found {state}, which no attempt before it had saved for it")
    if surely and (state is None or state < max(surely)):
        return Breach("I12", BACK, f"it found {state}, though {max(surely)} was kept")
    return None

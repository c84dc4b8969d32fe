"""A mark of cut output, brought by another node just while the attempt's own node is taken over."""

from __future__ import annotations

from typing import Any

import pytest

from rota.clock import ManualClock
from rota.model.job import Verdict
from rota.model.outcome import CrashRule
from rota.model.principal import LOCAL, SYSTEM
from rota.model.retry import Retry
from rota.store.postgres.database import Unit
from rota.store.values import CUT, Chunk, Position
from tests.contracts.world import World
from tests.store.postgres.ranking import Place

FIRST = {"still_running", "cut_late"}  # statements behind which the end of the attempt may be committed


@pytest.mark.parametrize("behind", sorted(FIRST))
async def test_it_is_kept_now_or_later(
    world: World, place: Place, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, behind: str
) -> None:
    actor, other = await world.node(), await place.store(clock=clock)
    job = await world.one(retry=Retry(3, "1s", 0))
    claimed = await actor.take(job)
    for number in range(3):
        await actor.say(claimed.ref, number, b"x")
    mark = Chunk(claimed.job_id, claimed.fence, 1, clock.now(), CUT, b"mark", since=0)
    chunks = [mark, actor.chunk(claimed.ref, 3, b"tail")]
    beats = (await actor.seen()).beats
    rows = Unit.rows

    async def then_taken_over(unit: Unit, name: str, *given: Any, **named: Any) -> Any:
        found = await rows(unit, name, *given, **named)
        if name == behind:
            monkeypatch.undo()
            assert await other.take_over(SYSTEM, actor.incarnation, beats, CrashRule()) is not None
        return found

    monkeypatch.setattr(Unit, "rows", then_taken_over)
    verdicts = await world.store.append_output(SYSTEM, chunks, late=True)
    monkeypatch.undo()
    if verdicts != [Verdict.APPLIED] * 2:
        assert verdicts == [Verdict.EARLY] * 2, "so it is brought once more"
        await other.take_over(SYSTEM, actor.incarnation, beats, CrashRule())
        assert await world.store.append_output(SYSTEM, chunks, late=True) == [Verdict.APPLIED] * 2
    kept = await world.store.output(LOCAL, job, Position(), 10)
    assert [chunk.body for chunk in kept] == [b"mark", b"x", b"tail"]

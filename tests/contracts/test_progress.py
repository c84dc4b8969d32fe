"""What a running attempt tells of how far it is."""

from __future__ import annotations

import pytest

from rota.errors import NotAllowed
from rota.model.job import Verdict
from rota.model.principal import LOCAL, SYSTEM
from rota.model.progress import Progress
from rota.model.retry import Retry
from rota.model.times import DAY
from rota.store.values import Note, Retention
from tests.contracts.world import BOOM, DONE, FATAL, STOPPED, World

NOBODY = "00000000-0000-7000-8000-000000000000"


def told(world: World, fraction: float | None, text: str = "") -> Progress:
    return Progress.told(fraction, text, world.clock.now())


async def tell(world: World, job_id: str, fence: int, number: int, fraction: float | None, text: str = "") -> Verdict:
    (verdict,) = await world.store.note(SYSTEM, [Note(job_id, fence, number, told(world, fraction, text))])
    return verdict


async def test_progress_is_seen_while_the_job_runs(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    assert (await world.info(job_id)).progress is None
    await actor.take()
    for number, (fraction, text) in enumerate([(0.0, ""), (0.4, "loading"), (None, "no idea"), (1.0, "ü\n\x1b[31m")]):
        assert await tell(world, job_id, 1, number, fraction, text) is Verdict.APPLIED
        assert (await world.info(job_id)).progress == told(world, fraction, text)
        world.clock.advance(1)


@pytest.mark.parametrize("ending", [DONE, FATAL], ids=["success", "failure"])
async def test_progress_stays_with_a_job_that_has_ended(world: World, ending: object) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.take()
    await tell(world, job_id, 1, 0, 0.7, "nearly")
    before = (await world.info(job_id)).progress
    await actor.finish(claimed, ending)  # type: ignore[arg-type]
    info = await world.info(job_id)
    assert info.ended
    assert info.progress == before


async def test_progress_stays_until_the_next_attempt_tells_its_own(world: World) -> None:
    actor = await world.node()
    job_id = await world.one(retry=Retry(5, "1s", 0))
    claimed = await actor.take()
    await tell(world, job_id, 1, 7, 0.7)
    await actor.finish(claimed, BOOM)
    world.clock.advance(1)
    await world.promote()
    assert (await actor.take(job_id)).fence == 2
    assert (await world.info(job_id)).progress.fraction == 0.7  # type: ignore[union-attr]
    assert await tell(world, job_id, 2, 0, 0.1) is Verdict.APPLIED, "numbers begin anew with each attempt"
    assert (await world.info(job_id)).progress.fraction == 0.1  # type: ignore[union-attr]


async def test_what_was_told_later_stays(world: World) -> None:
    """A repeat after a lost reply, and one that was on its way for a long time."""
    actor = await world.node()
    job_id = await world.one()
    await actor.take()
    assert await tell(world, job_id, 1, 3, 0.5) is Verdict.APPLIED
    async with world.unchanged():
        assert await tell(world, job_id, 1, 3, 0.5) is Verdict.ALREADY
        assert await tell(world, job_id, 1, 2, 0.2) is Verdict.ALREADY


async def test_an_attempt_that_is_over_changes_nothing(world: World) -> None:
    actor = await world.node()
    job_id = await world.one(retry=Retry(5, "1s", 0))
    first = await actor.take()
    async with world.unchanged():
        assert await tell(world, job_id, 2, 0, 0.9) is Verdict.STALE, "not yet"
    await tell(world, job_id, 1, 0, 0.3)
    await actor.finish(first, STOPPED)
    async with world.unchanged():
        assert await tell(world, job_id, 1, 0, 0.3) is Verdict.ALREADY, "it was applied then"
        assert await tell(world, job_id, 1, 1, 0.9) is Verdict.STALE
    second = await actor.take(job_id)
    async with world.unchanged():
        assert await tell(world, job_id, 1, 1, 0.9) is Verdict.STALE
    await actor.finish(second, DONE)
    async with world.unchanged():
        assert await tell(world, job_id, 2, 0, 0.9) is Verdict.STALE
        assert await tell(world, NOBODY, 1, 0, 0.9) is Verdict.STALE
        assert await tell(world, "nonsense", 1, 0, 0.9) is Verdict.STALE


async def test_what_was_handed_back_tells_nothing(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.ahead()
    await actor.hand_back(claimed.ref)
    async with world.unchanged():
        assert await tell(world, job_id, 1, 0, 0.9) is Verdict.STALE


async def test_one_call_tells_of_many(world: World) -> None:
    actor = await world.node()
    one, two, three = await world.several(3)
    await actor.claim()
    batch = [
        Note(one, 1, 0, told(world, 0.1)),
        Note(two, 9, 0, told(world, 0.9)),
        Note(one, 1, 1, told(world, 0.2)),
        Note(three, 1, 0, None, "[1]"),
        Note(one, 1, 1, told(world, 0.3)),
        Note(three, 1, 1, told(world, 0.5)),
        Note("nonsense", 1, 0, told(world, 0.5)),
    ]
    a, s, k = Verdict.APPLIED, Verdict.STALE, Verdict.ALREADY
    assert await world.store.note(SYSTEM, batch) == [a, s, a, a, k, a, s]
    found = [(await world.info(job)).progress for job in (one, two, three)]
    assert [seen and seen.fraction for seen in found] == [0.2, None, 0.5]
    assert await world.store.note(SYSTEM, []) == []


async def test_people_tell_nothing(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    await actor.take()
    async with world.unchanged():
        with pytest.raises(NotAllowed):
            await world.store.note(LOCAL, [Note(job_id, 1, 0, told(world, 0.5))])


async def test_progress_survives_the_death_of_its_node(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    await actor.take()
    await tell(world, job_id, 1, 0, 0.6, "there")
    await actor.die()
    assert (await world.info(job_id)).progress.text == "there"  # type: ignore[union-attr]
    assert [(info.progress and info.progress.text) for info in (await world.all()).values()] == ["there"]


@pytest.mark.parametrize("how", ["purged", "pruned"])
async def test_what_was_told_goes_with_the_job(world: World, how: str) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.take()
    await world.store.note(SYSTEM, [Note(job_id, 1, 0, told(world, 0.5), '"state"')])
    await actor.finish(claimed, FATAL)
    if how == "purged":
        assert await world.store.purge(LOCAL, [job_id]) == [True]
    else:
        world.clock.advance(3 * DAY / 1_000_000)
        await world.store.prune(SYSTEM, Retention(DAY, DAY, DAY, DAY), 100)
    contents = world.backend.contents()
    assert {name: contents[name] for name in ("progress", "checkpoints")} == {"progress": [], "checkpoints": []}

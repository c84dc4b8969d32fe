"""The heartbeat renews the lease and passes on what it hears; the guard stops the work when renewals fail."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rota.clock import ManualClock
from rota.errors import StoreUnavailable
from rota.lease import BEAT, EXPOSED_MARGIN, MARGIN, WARNING, Lease
from rota.model.job import Ref
from rota.model.principal import LOCAL
from rota.model.times import SECOND, Duration
from rota.store.base import Store
from rota.work.attempt import Stop
from rota.work.heartbeat import Heartbeat, LeaseGuard
from tests.contracts.test_leaders import control
from tests.contracts.world import Actor, World
from tests.control.stage import Troubled
from tests.work.test_meter import Shop

LENGTH = 10.0


class Ward:
    """A heartbeat, the lease that it renews, and what it tells."""

    def __init__(self, world: World, actor: Actor, shop: Shop | None = None, store: Store | None = None) -> None:
        self.lease = Lease(world.clock, LENGTH)
        self.deadlines: list[float] = []
        self.lost: list[str] = []
        self.holds: list[Sequence[Ref]] = []
        worker = shop.worker if shop else None
        self.beat = Heartbeat(
            store or world.store, world.clock, actor.incarnation, self.lease, worker, self.deadlines.append,
            self.lost.append,
        )  # fmt: skip
        self.beat.heard_holds = self.holds.append


async def test_each_renewal_moves_the_deadline_of_the_keeper(world: World) -> None:
    ward = Ward(world, await world.node())
    began = world.clock.monotonic()
    for _ in range(3):
        world.clock.advance(BEAT)
        assert await ward.beat.tick() == BEAT
    assert ward.deadlines == [began + n * BEAT + LENGTH - MARGIN for n in (1, 2, 3)]
    assert not ward.lost


async def test_a_renewal_counts_from_when_it_was_asked_for(world: World) -> None:
    """The answer may have been slow, and others count from the write."""
    troubled = Troubled(world.store)
    ward = Ward(world, await world.node(), store=troubled.face)
    troubled.after["renew"] = lambda: world.clock.advance(4)
    began = world.clock.monotonic()
    await ward.beat.tick()
    assert ward.deadlines == [began + LENGTH - MARGIN]


async def test_a_renewal_that_fails_renews_nothing(world: World) -> None:
    troubled = Troubled(world.store)
    ward = Ward(world, await world.node(), store=troubled.face)
    before = ward.lease.deadline
    world.clock.advance(1)
    for fails in (troubled.fails, troubled.fails_after):
        fails["renew"] = 1
        with pytest.raises(StoreUnavailable):
            await ward.beat.tick()
    assert (ward.lease.deadline, ward.deadlines) == (before, [])


async def test_one_that_was_declared_dead_hears_of_it(world: World) -> None:
    actor = await world.node()
    ward = Ward(world, actor)
    await actor.die()
    before = ward.lease.deadline
    world.clock.advance(1)
    await ward.beat.tick()
    assert ward.lost == ["it was declared dead"]
    assert (ward.lease.deadline, ward.deadlines) == (before, [])


async def test_attempts_that_were_cancelled_are_told_to_stop(world: World) -> None:
    actor = await world.node()
    shop = Shop(world, actor, {"default": 4})
    stops: list[tuple[str, Stop, str]] = []
    shop.worker.stop_attempt = lambda ref, reason, why="": stops.append((ref.job_id, reason, why))  # type: ignore[method-assign]
    ward = Ward(world, actor, shop)
    one, other = await world.several(2)
    await shop.work()
    await world.store.cancel(LOCAL, [one], "not wanted any more")
    await ward.beat.tick()
    assert stops == [(one, Stop.CANCEL, "not wanted any more")]
    assert [ref.job_id for ref in ward.holds[-1]] == [one, other], "as the store sees it"


async def test_whether_it_leads_is_heard_with_the_renewal(world: World) -> None:
    ward, follower = Ward(world, await control(world, "one")), Ward(world, await control(world, "two"))
    assert ward.beat.term is None
    await ward.beat.tick()
    assert ward.beat.term == 1
    await follower.beat.tick()
    assert follower.beat.term is None


async def test_others_see_that_it_is_stopping(world: World) -> None:
    actor = await world.node()
    ward = Ward(world, actor)
    await ward.beat.tick()
    before = (await actor.seen()).state
    ward.beat.stopping = True
    await ward.beat.tick()
    assert (await actor.seen()).state != before


# -- the guard --------------------------------------------------------------------------------------------------------
class Guarded:
    def __init__(self, clock: ManualClock) -> None:
        self.grace: Duration | None = None
        self.lease = Lease(clock, LENGTH, lambda: self.grace)
        self.deadlines: list[float] = []
        self.lost: list[str] = []
        self.guard = LeaseGuard(self.lease, self.deadlines.append, self.lost.append)


async def test_work_is_stopped_a_while_before_the_lease_ends(clock: ManualClock) -> None:
    there = Guarded(clock)
    clock.advance(LENGTH - MARGIN - WARNING)
    await there.guard.tick()
    assert not there.lost
    clock.advance(0.01)
    await there.guard.tick()
    assert there.lost == ["it could not be renewed in time"]


async def test_a_node_that_is_exposed_is_watched_closely_and_has_less_time(clock: ManualClock) -> None:
    there = Guarded(clock)
    assert await there.guard.tick() == LeaseGuard.PERIOD
    assert not there.deadlines
    began, there.grace = clock.monotonic(), 2 * SECOND
    assert await there.guard.tick() == LeaseGuard.CLOSELY
    assert there.deadlines == [began + 2 - EXPOSED_MARGIN]
    there.grace = None  # it has renewed
    assert await there.guard.tick() == LeaseGuard.PERIOD
    assert there.deadlines[-1] == began + LENGTH - MARGIN, "as late again as before"
    await there.guard.tick()
    assert len(there.deadlines) == 2

"""The server's time, as a process knows it."""

from __future__ import annotations

import pytest

from rota.clock import ManualClock, SystemClock
from rota.model.principal import SYSTEM
from rota.model.times import SECOND, instant
from rota.store.server_clock import DRIFT, STALE, ServerClock
from tests.contracts.world import World
from tests.store.postgres.ranking import Place

NOON = 1_900_000_000_000_000  # at the server


def answer(clock: ManualClock, server: ServerClock, took: float, said: int) -> None:
    """The server says its time half-way through a question that takes so long."""
    sent = clock.monotonic()
    clock.advance(took)
    server.heard(said, sent)


@pytest.fixture
def server(clock: ManualClock) -> ServerClock:
    return ServerClock(clock)


def test_before_the_first_answer_it_is_the_own_wall_clock(clock: ManualClock, server: ServerClock) -> None:
    assert not server.known
    assert server.stale
    assert (server.now(), server.doubt) == (clock.now(), 0)


def test_it_is_taken_for_said_in_the_middle_of_the_wait(clock: ManualClock, server: ServerClock) -> None:
    answer(clock, server, took=0.4, said=NOON)
    assert server.now() == NOON + 200_000
    assert server.doubt == 200_020  # the half of it, and the drift since
    clock.advance(10)
    assert server.now() == NOON + 10_200_000


def test_jumps_of_the_own_wall_clock_do_not_matter(clock: ManualClock, server: ServerClock) -> None:
    answer(clock, server, took=0.0, said=NOON)
    for jump in (-3600, 86_400):
        clock.jump(jump)
        assert server.now() == NOON
    clock.advance(1)
    assert server.now() == NOON + SECOND


def test_a_slower_answer_does_not_replace_a_quick_one_of_late(clock: ManualClock, server: ServerClock) -> None:
    answer(clock, server, took=0.002, said=NOON)
    before = server.now()
    answer(clock, server, took=0.5, said=NOON + SECOND // 5)  # off, and all of it may be the way back
    assert server.now() == before + 500_000


def test_a_quicker_answer_replaces_it(clock: ManualClock, server: ServerClock) -> None:
    answer(clock, server, took=0.5, said=NOON)
    answer(clock, server, took=0.002, said=NOON + 9 * SECOND)
    assert server.now() == NOON + 9 * SECOND + 1_000


def test_clocks_drift_so_an_old_answer_gives_way_to_a_slower_one(clock: ManualClock, server: ServerClock) -> None:
    answer(clock, server, took=0.002, said=NOON)
    worse = 0.022  # ten milliseconds more of doubt, which drift makes up for in this time:
    clock.advance(0.010 / DRIFT - 2)
    for adopted in (False, True):
        before = server.now()
        answer(clock, server, took=worse, said=before + 15_000)  # said half-way: 4 ms later than we thought
        assert server.now() == pytest.approx(before + 22_000 + 4_000 * adopted, abs=2)
        clock.advance(2)


def test_doubt_grows_with_time_and_it_grows_stale(clock: ManualClock, server: ServerClock) -> None:
    answer(clock, server, took=0.0, said=NOON)
    assert (server.doubt, server.stale) == (0, False)
    clock.advance(STALE)
    assert server.doubt == round(STALE * DRIFT * SECOND)
    assert not server.stale
    clock.advance(1)
    assert server.stale


# -- a machine whose clock is wrong, on a real server -----------------------------------------------------------------


class Skewed:
    """The clock of a machine that is off by so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._real = SystemClock()

    def now(self) -> int:
        return self._real.now() + round(self.seconds * SECOND)

    def monotonic(self) -> float:
        return self._real.monotonic()


def off(place: Place, now: int) -> float:
    """By how many seconds this is not the server's time."""
    real: int = place.value("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
    return abs(real - now) / SECOND


@pytest.mark.parametrize("skew", [-60.0, 60.0])
async def test_a_skewed_machine_goes_by_the_servers_clock(place: Place, world: World, skew: float) -> None:
    clock = Skewed(skew)
    store = await place.store(clock=clock)
    assert off(place, store.now()) < 1
    clock.seconds = -skew
    assert off(place, store.now()) < 1
    actor = await world.node(store=store)
    await actor.renew()
    ready, later = world.job(delay=0), world.job(delay=30 * SECOND)
    await store.submit(SYSTEM, [[ready], [later]])
    (claimed,) = await actor.claim()
    assert claimed.job_id == ready.id, "due now here and there, or half a minute from now"
    info = await store.get(SYSTEM, ready.id)
    assert info is not None
    assert off(place, instant(info.created_at)) < 5
    assert off(place, instant((await actor.seen()).seen_at)) < 5


async def test_a_due_time_is_judged_by_the_server(place: Place, world: World) -> None:
    """Given as an instant by a machine that is a minute ahead, or behind, of the server."""
    for skew in (-60.0, 60.0):
        store = await place.store(clock=Skewed(skew))
        past, future = world.job(at=store.now() - SECOND), world.job(at=store.now() + 20 * SECOND)
        await store.submit(SYSTEM, [[past], [future]])
        await store.promote(SYSTEM, 100)
        states = [info.state.value for job in (past, future) if (info := await store.get(SYSTEM, job.id))]
        assert states == ["ready", "scheduled"]


async def test_the_doctor_names_the_difference(place: Place) -> None:
    for skew, word in ((-60.0, "behind"), (60.0, "ahead of")):
        store = await place.store(clock=Skewed(skew))
        (finding,) = [one for one in await store.examine() if one.name == "clock"]
        assert not finding.ok
        assert word in finding.text
    (finding,) = [one for one in await (await place.store()).examine() if one.name == "clock"]
    assert finding.ok


def test_an_answer_that_proves_the_old_ones_wrong_replaces_them(clock: ManualClock, server: ServerClock) -> None:
    """The server's clock was set, or another server has taken its place."""
    answer(clock, server, took=0.0001, said=NOON)
    answer(clock, server, took=0.001, said=NOON - 30 * SECOND)
    assert abs(server.now() - (NOON - 30 * SECOND)) < 1_000

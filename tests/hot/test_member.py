"""The breaker in front of a lane: whom it stops, who tries again, and what it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rota.clock import Chance
from rota.hot.lane import Due, HotAway, HotRefused, Lane, LaneState
from rota.hot.local import LocalLane, LocalServer
from rota.hot.member import LONGEST_PAUSE, STEADY, Member
from tests.hot.lanes import STORE
from tests.hot.virtual import sim_clock, virtual


class Watched(LocalLane):
    """Notes when it is opened. A call of `state` waits for an answer of the test."""

    def __init__(self, server: LocalServer) -> None:
        super().__init__(server)
        self.opened_at: list[float] = []
        self.asked = 0
        self.answers: asyncio.Queue[Exception | None] = asyncio.Queue()

    async def open(self, store: str) -> None:
        self.opened_at.append(asyncio.get_running_loop().time())
        await super().open(store)

    async def state(self) -> LaneState:
        self.asked += 1
        if error := await self.answers.get():
            raise error
        return await super().state()


class Case:
    def __init__(self) -> None:
        self.server = LocalServer(sim_clock())
        self.lane = Watched(self.server)
        self.said: list[str | None] = []
        self.member = Member(self.lane, STORE, Chance(1), lambda member: self.said.append(member.problem))

    def ask(self) -> asyncio.Task[LaneState]:
        return asyncio.create_task(self.member.call(state))

    async def reached(self, patience: float = 5) -> None:
        async with asyncio.timeout(patience):
            while not self.member.healthy:  # noqa: ASYNC110
                await asyncio.sleep(0.001)


@asynccontextmanager
async def reached() -> AsyncIterator[Case]:
    case = Case()
    case.member.begin()
    await case.reached()
    yield case
    await case.member.close()


def state(lane: Lane) -> asyncio.Future[LaneState]:
    return asyncio.ensure_future(lane.state())


async def soon() -> None:
    await asyncio.sleep(0.000_001)


@virtual
async def test_it_is_away_until_it_was_reached_and_says_so_once() -> None:
    case = Case()
    with pytest.raises(HotAway, match="not asked yet"):
        await case.member.call(state)
    assert (case.lane.asked, case.said, case.member.tried.is_set()) == (0, [], False)
    case.member.begin()
    await case.member.tried.wait()
    assert (case.member.healthy, case.said, case.member.openings) == (True, [None], 1)
    case.member.begin()
    await case.member.close()


@virtual
async def test_the_first_failure_ends_its_use_for_all_and_one_task_reaches_for_it() -> None:
    async with reached() as case:
        await asyncio.sleep(STEADY + 1)
        waiting = [case.ask() for _ in range(5)]
        await soon()
        case.server.away = True
        case.lane.answers.put_nowait(HotAway("local: no answer"))
        await soon()
        assert (case.member.problem, case.said) == ("it is away", [None, "no answer", "it is away"])
        with pytest.raises(HotAway):
            await case.member.call(state)
        assert case.lane.asked == 5, "nobody waits for a dead server twice"
        for _ in waiting[1:]:
            case.lane.answers.put_nowait(HotAway("local: no answer"))
        failed = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(error) for error in failed] == [HotAway] * 5
        assert len(case.lane.opened_at) == 2
        case.server.away = False
        await case.reached()
        assert len(case.said) == len(set(case.said[1:])) + 1, "each problem once"
        assert case.said[-1] is None


@virtual
async def test_a_late_failure_of_an_earlier_opening_does_not_lose_the_new_one() -> None:
    async with reached() as case:
        early, stale = case.ask(), case.ask()
        await soon()
        case.lane.answers.put_nowait(HotAway("local: no answer"))
        await asyncio.wait([early])
        await case.reached()
        assert case.member.openings == 2
        case.lane.answers.put_nowait(HotAway("local: no answer"))
        await asyncio.wait([stale])
        assert isinstance(stale.exception(), HotAway)
        assert case.member.healthy
        assert early.exception() is not stale.exception()


@virtual
async def test_a_refusal_loses_it_too_and_its_place_is_not_said_twice() -> None:
    async with reached() as case:
        case.server.full = True
        with pytest.raises(HotRefused, match="local: its memory is full"):
            await case.member.call(lambda lane: lane.add_due([Due("j", 1)]))
        assert case.member.problem is not None
        assert case.member.problem.startswith("its memory is full")


@virtual
async def test_an_answer_that_nobody_understands_loses_it_too() -> None:
    async with reached() as case:
        case.lane.answers.put_nowait(ValueError("what is this?"))
        with pytest.raises(HotRefused, match="can't be understood") as raised:
            await case.member.call(state)
        assert isinstance(raised.value.__cause__, ValueError)
        assert not case.member.healthy


@virtual
async def test_a_caller_that_gives_up_is_no_failure_of_the_server() -> None:
    async with reached() as case:
        cancelled = case.ask()
        await soon()
        cancelled.cancel()
        await asyncio.wait([cancelled])
        assert case.member.healthy


@virtual
async def test_pauses_grow_to_a_second() -> None:
    case = Case()
    case.server.away = True
    case.member.begin()
    await asyncio.sleep(30)
    pauses = [late - early for early, late in zip(case.lane.opened_at, case.lane.opened_at[1:], strict=False)]
    assert pauses[0] <= 0.05
    assert all(LONGEST_PAUSE / 2 <= pause <= LONGEST_PAUSE for pause in pauses[6:])
    assert case.said == ["it is away"], "once, however often it is tried"
    case.server.away = False
    await case.reached()
    await case.member.close()


@virtual
async def test_one_that_was_well_is_reached_for_at_once() -> None:
    async with reached() as case:
        await asyncio.sleep(STEADY + 1)
        case.server.away = True
        case.server.away = False
        lost_at = asyncio.get_running_loop().time()
        with pytest.raises(HotAway):
            await case.member.call(lambda lane: lane.look(0, 0))
        await case.reached()
        assert asyncio.get_running_loop().time() - lost_at < 0.01


@virtual
async def test_one_that_answers_and_refuses_is_not_reached_for_again_and_again() -> None:
    """As a server whose memory is full."""
    async with reached() as case:
        case.server.full = True
        for _ in range(20_000):
            with pytest.raises((HotAway, HotRefused)):
                await case.member.call(lambda lane: lane.add_due([Due("j", 1)]))
            await asyncio.sleep(0.001)
        assert len(case.lane.opened_at) < 50


@virtual
async def test_a_closed_one_stays_away() -> None:
    async with reached() as case:
        pending = case.ask()
        await soon()
        await case.member.close()
        case.lane.answers.put_nowait(HotAway("local: the connection was closed"))
        await asyncio.wait([pending])
        assert isinstance(pending.exception(), HotAway)
        with pytest.raises(HotAway):
            await case.member.call(state)
        case.member.begin()
        await asyncio.sleep(5)
        assert (len(case.lane.opened_at), case.said) == (1, [None])


@virtual
async def test_it_is_closed_while_it_is_reached_for() -> None:
    case = Case()
    case.server.away = True
    case.member.begin()
    await asyncio.sleep(1)
    await case.member.close()
    case.server.away = False
    await asyncio.sleep(5)
    assert not case.member.healthy

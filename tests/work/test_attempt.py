"""One attempt to its end: what a stop makes of it, what its last write says, and when the store does not take that."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from rota.batching import Batcher
from rota.clock import Chance
from rota.errors import InvalidInput, StoreUnavailable
from rota.logs.shipper import Sink
from rota.model.job import Claimed, Verdict
from rota.model.lifecycle import State
from rota.model.outcome import CrashRule, Ending, Outcome, Problem, Settlement, Succeeded, Usage
from rota.model.principal import SYSTEM
from rota.model.retry import Retry
from rota.refusals import CERTAIN
from rota.telemetry.events import AttemptStale, AttemptStuck, Bus, Event, ServiceFailed
from rota.work.attempt import Attempt, Executor, Pipeline, Stop, Stuck
from tests.contracts.world import World
from tests.control.stage import Troubled
from tests.work.books import shut_book
from tests.work.executors.calling import attempt_at

LONG = 20.0


class Well:
    async def execute(self, attempt: Attempt) -> Outcome:
        return Succeeded()


class Measured:
    """Its work waited for a process, and took a moment when it had one."""

    async def execute(self, attempt: Attempt) -> Outcome:
        await asyncio.sleep(0.01)
        attempt.usage = Usage(wall_time=7)
        return Succeeded()


class Mistaken:
    async def execute(self, attempt: Attempt) -> Outcome:
        raise KeyError("a mistake of ours")


async def settled_by(executor: Executor) -> Settlement:
    taken: list[Settlement] = []

    async def finish(batch: list[Settlement]) -> list[Verdict]:
        taken.extend(batch)
        return [Verdict.APPLIED] * len(batch)

    await Pipeline({"http": executor}, cast(Any, None), Batcher(finish), Bus(), Chance()).run(attempt_at("{}"))
    return taken[0]


async def test_the_time_that_its_work_took_is_what_its_executor_says() -> None:
    """The time until it had a process was counted in."""
    usage = (await settled_by(Measured())).usage
    assert usage is not None
    assert usage.wall_time == 7


async def test_a_mistake_of_an_executor_is_not_taken_for_a_missing_one() -> None:
    settlement = await settled_by(Mistaken())
    assert settlement.ending is Ending.FAILED
    assert settlement.error is not None
    assert settlement.error.type == "rota.ExecutorError"


async def test_it_is_tried_until_it_is_taken_and_the_trouble_is_told_once_for_all() -> None:
    taken: list[Settlement] = []
    told: list[Event] = []
    failures = 3

    async def finish(batch: list[Settlement]) -> list[Verdict]:
        nonlocal failures
        if failures:
            failures -= 1
            raise StoreUnavailable("a row is locked")
        taken.extend(batch)
        return [Verdict.APPLIED] * len(batch)

    bus = Bus()
    bus.subscribe(told.append)
    pipeline = Pipeline({"http": Well()}, cast(Any, None), Batcher(finish), bus, Chance())
    await asyncio.gather(*(pipeline.run(attempt_at("{}")) for _ in range(5)))
    assert len(taken) == 5
    assert [event for event in told if isinstance(event, ServiceFailed)] == [
        ServiceFailed("writing of ends", "StoreUnavailable: a row is locked")
    ]


# -- to the end, on a store -------------------------------------------------------------------------------------------
class Obedient:
    """Runs until it is told to stop, and then says that all went well: the reason to stop decides."""

    def __init__(self, result: Outcome | None = None) -> None:
        self.begun = asyncio.Event()
        self._result = result or Succeeded()

    async def execute(self, attempt: Attempt) -> Outcome:
        told = asyncio.Event()
        attempt.on_stop(lambda _: told.set())
        self.begun.set()
        await told.wait()
        return self._result


class Deaf:
    """Was told to stop, got its grace, and still runs."""

    def __init__(self) -> None:
        self.over = asyncio.Event()

    async def execute(self, attempt: Attempt) -> Outcome:
        raise Stuck(self.over)


class Scene:
    """One job that a node has claimed, and the pipeline that takes it to its end on a real store."""

    def __init__(self, world: World, claimed: Claimed, executor: Executor) -> None:
        self.world, self.told = world, list[Event]()
        bus = Bus()
        bus.subscribe(self.told.append)
        sink = Sink(claimed.ref, 1_000, world.clock.now, lambda _: None)
        self.attempt = Attempt(claimed, sink, shut_book(), world.clock)
        self.store = Troubled(world.store)
        finishes: Batcher[Settlement, Verdict] = Batcher(lambda batch: self.store.face.finish(SYSTEM, batch))
        self.pipeline = Pipeline({str(claimed.kind): executor}, cast(Any, None), finishes, bus, Chance(1))

    @classmethod
    async def of(cls, world: World, executor: Executor, **changes: Any) -> Scene:
        await world.one(**changes)
        return cls(world, await (await world.node()).take(), executor)

    async def ends(self) -> State:
        async with asyncio.timeout(LONG):
            await self.pipeline.run(self.attempt)
        return await self.state()

    async def state(self) -> State:
        return await self.world.state(self.attempt.claimed.job_id)


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        (Stop.CANCEL, State.CANCELLED),
        (Stop.TIMEOUT, State.FAILED),
        (Stop.INTERRUPT, State.READY),
        (Stop.LOST, State.RUNNING),  # it is not ours to say any more
    ],
)
async def test_the_reason_to_stop_decides_whatever_its_work_says_then(world: World, reason: Stop, state: State) -> None:
    executor = Obedient()
    scene = await Scene.of(world, executor, retry=Retry(0))
    running = asyncio.create_task(scene.ends())
    await executor.begun.wait()
    scene.attempt.stop(reason, "so")
    assert await running is state
    assert scene.store.calls == ([] if reason is Stop.LOST else ["finish"])


async def test_the_first_reason_counts_and_a_lost_lease_outweighs_it(world: World) -> None:
    executor = Obedient()
    scene = await Scene.of(world, executor)
    scene.attempt.stop(Stop.CANCEL, "first")
    scene.attempt.stop(Stop.TIMEOUT, "second")
    assert (scene.attempt.stopped, scene.attempt.why) == (Stop.CANCEL, "first")
    scene.attempt.stop(Stop.LOST)
    assert await scene.ends() is State.RUNNING, "it heard of the stop before it began"


async def test_work_that_can_t_be_stopped_is_not_tried_again_beside_itself(world: World) -> None:
    deaf = Deaf()
    scene = await Scene.of(world, deaf, retry=Retry(5))
    scene.attempt.stop(Stop.TIMEOUT, "after 1s")
    assert await scene.ends() is State.FAILED
    assert scene.attempt.over is deaf.over
    assert [event for event in scene.told if isinstance(event, AttemptStuck)]


async def test_work_that_goes_on_when_its_node_stops_is_left_to_the_last_write_of_the_node(world: World) -> None:
    scene = await Scene.of(world, Deaf())
    scene.attempt.stop(Stop.INTERRUPT)
    assert await scene.ends() is State.RUNNING


async def test_its_time_is_limited(world: World) -> None:
    scene = await Scene.of(world, Obedient(), timeout=1_000, retry=Retry(0))
    assert await scene.ends() is State.FAILED
    info = await world.info(scene.attempt.claimed.job_id)
    assert info.error is not None
    assert info.error.message == "timed out after 1ms"


async def test_a_kind_that_this_node_can_t_run_is_set_aside(world: World) -> None:
    scene = await Scene.of(world, Well())
    scene.pipeline._executors.clear()
    assert await scene.ends() is State.FAILED
    assert (await world.info(scene.attempt.claimed.job_id)).error == Problem(
        "rota.UnknownKind", "no executor for kind 'command'"
    )


async def test_an_answer_that_was_lost_is_asked_for_again_and_the_end_is_written_once(world: World) -> None:
    scene = await Scene.of(world, Well())
    scene.store.fails_after["finish"] = 1
    assert await scene.ends() is State.SUCCEEDED
    assert scene.store.calls == ["finish", "finish"]
    assert len((await world.info(scene.attempt.claimed.job_id)).attempts) == 1


async def test_one_that_was_taken_over_meanwhile_changes_nothing(world: World) -> None:
    scene = await Scene.of(world, Well())
    job, fence = scene.attempt.claimed.job_id, scene.attempt.claimed.fence
    (node,) = await world.store.nodes(SYSTEM)
    await world.store.take_over(SYSTEM, node.incarnation, node.beats, CrashRule())
    assert await scene.ends() is State.READY
    assert scene.told[-1] == AttemptStale(job, fence)


async def test_an_end_that_the_store_can_t_hold_sets_the_job_aside(world: World) -> None:
    scene = await Scene.of(world, Well())
    scene.store.fails["finish"], scene.store.error = CERTAIN, cast(Any, InvalidInput("result", "x", "something else"))
    assert await scene.ends() is State.FAILED
    info = await world.info(scene.attempt.claimed.job_id)
    assert info.error is not None
    assert info.error.type == "rota.Unwritable"

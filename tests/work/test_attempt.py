"""What the last write of an attempt says, and what happens when the store does not take it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from rota.batching import Batcher
from rota.clock import Chance
from rota.errors import StoreUnavailable
from rota.model.job import Verdict
from rota.model.outcome import Ending, Outcome, Settlement, Succeeded, Usage
from rota.telemetry.events import Bus, Event, ServiceFailed
from rota.work.attempt import Attempt, Executor, Pipeline
from tests.work.executors.calling import attempt_at


class Well:
    async def execute(self, attempt: Attempt) -> Outcome:
        return Succeeded()


class Measured:
    """Its work waited for a process, and took a moment when it had one."""

    async def execute(self, attempt: Attempt) -> Outcome:
        await asyncio.sleep(0.01)
        attempt.usage = Usage(wall=7)
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
    assert usage.wall == 7


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

"""Attempts at real jobs: the pipeline of a node, with its shipper, its book and its batches, on the store of a test."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rota.batching import Batcher
from rota.clock import Chance, SystemClock
from rota.logs.shipper import Shipper
from rota.model.job import Claimed, Verdict
from rota.model.outcome import Outcome, Settlement, Succeeded
from rota.model.principal import SYSTEM
from rota.store.base import Store
from rota.store.values import Position
from rota.telemetry.events import Bus
from rota.work.attempt import Attempt, Pipeline, weight
from rota.work.progress import ProgressWriter

SAID = b"what it said\n"


class Work:
    """Writes output, tells how far it is, saves a state (or does nothing of that), and ends as it is told to."""

    def __init__(self, ends: Sequence[Outcome], talk: bool) -> None:
        self._ends, self._talk = iter(ends), talk

    async def execute(self, attempt: Attempt) -> Outcome:
        if not self._talk:
            return next(self._ends)
        attempt.sink.write("stdout", SAID)
        attempt.book.progress(0.5, "half of it")
        await asyncio.wrap_future(attempt.book.save('{"page": 7}'))
        return next(self._ends)


async def perform(store: Store, claimed: Sequence[Claimed], *ends: Outcome, talk: bool = True) -> None:
    """Takes attempts at these to their ends, side by side."""
    shipper, notes = Shipper(store, 1 << 20, Bus()), ProgressWriter(store)
    finishes: Batcher[Settlement, Verdict] = Batcher(lambda batch: store.finish(SYSTEM, batch), weigh=weight)
    work = Work(ends or [Succeeded('"done"')] * len(claimed), talk)
    pipeline = Pipeline({one.kind: work for one in claimed}, shipper, finishes, Bus(), Chance())
    attempts = [Attempt(one, shipper.open(one.ref), notes.open(one.ref), SystemClock()) for one in claimed]
    await asyncio.gather(*(pipeline.run(attempt) for attempt in attempts))


async def said(store: Store, job: str) -> bytes:
    chunks = await store.output(SYSTEM, job, Position(), 1000)
    return b"".join(chunk.body for chunk in chunks)

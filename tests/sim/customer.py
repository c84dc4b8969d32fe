"""The customer: orders jobs, repeats orders it got no answer to, cancels some, replays some, notes what it is told."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import msgspec

from rota.clients.jobs import JobsClient
from rota.clock import Chance
from rota.errors import KeyConflict, StoreError
from rota.model.job import NewJob, Spec
from rota.model.principal import LOCAL
from rota.model.retry import Retry
from rota.model.times import SECOND
from rota.store.base import Store
from rota.store.values import Topic
from tests.sim.loop import START, SkewedClock
from tests.sim.network import Link

if TYPE_CHECKING:
    from tests.sim.world import World

# How often an order with a key is repeated before the customer gives up and stays in doubt.
TRIES = 4


async def open_store(store: Store) -> None:
    while True:
        with suppress(StoreError):
            return await store.open()
        await asyncio.sleep(0.5)


class Customer:
    def __init__(self, world: World) -> None:
        self._world, self._note = world, world.witness.note
        self._rng = Random(f"{world.plan.seed}/customer")
        self.link = Link(world, "customer")
        clock = SkewedClock(world.loop, self._rng.uniform(-60, 60))
        self.wire, self._store = world.way("customer", self.link, clock, None)
        self._client = JobsClient(self._store, LOCAL, Chance(self._rng.getrandbits(64)))
        self.orders: dict[str, NewJob] = {}
        self._known: list[str] = []
        self._keys = itertools.count()
        self._visits: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        plan = self._world.plan
        if self._world.must_be_opened:
            await open_store(self._store)
        if plan.seed % 2:  # as a server does for many customers
            self._store.listen(frozenset({Topic.NEWS}), lambda: None)
        kinds = (self._order, self._order_again, self._order_otherwise, self._cancel, self._replay)
        for _ in range(plan.visits):
            await asyncio.sleep(self._rng.expovariate(plan.visits / plan.length))
            visit = self._rng.choices(kinds, (70, 6, 4, 12, 7))[0]
            self._visits.append(asyncio.create_task(visit()))
        for task in self._visits:
            await task

    async def order_timers(self) -> None:
        """Quick ones, due within the next seconds."""
        tenths = [5, 10, 15, 20, 25, 30] + ([45, 50, 55] if self._world.hot else [])
        for delay in tenths:
            spec = Spec.command(["sim"])
            await self._submit([NewJob(id=self._new_id(), task="command", spec=spec, delay=delay * SECOND // 10)])

    # -- orders ------------------------------------------------------------------------------------------------------
    async def _order(self) -> None:
        count = 1 if self._rng.random() < 0.8 else self._rng.randint(2, 4)
        await self._submit([self._make() for _ in range(count)])
        if self._rng.random() < 0.15:
            await asyncio.sleep(self._rng.uniform(0, 2))
            await self._cancel()

    async def _order_again(self) -> None:
        """The same key and the same content, as after a crash of the customer."""
        if keyed := self._keyed():
            await self._submit([self._renamed(self._rng.choice(keyed))])

    async def _order_otherwise(self) -> None:
        """The same key for something else: a conflict, if the first order was accepted."""
        if keyed := self._keyed():
            other = self._renamed(self._rng.choice(keyed))
            await self._submit([msgspec.structs.replace(other, args='{"other": 1}', spec=Spec.command(["other"]))])

    def _keyed(self) -> list[NewJob]:
        return [order for order in self.orders.values() if order.key is not None]

    def _renamed(self, order: NewJob) -> NewJob:
        return msgspec.structs.replace(order, id=self._new_id())

    def _new_id(self) -> str:
        return self._client.job_ids(1)[0]

    def _make(self) -> NewJob:
        rng = self._rng
        task = rng.choice(("command", "play", "grind"))
        job_id = self._new_id()
        return NewJob(
            id=job_id,
            task=task,
            spec=Spec.command(["sim"]) if task == "command" else Spec.function(task),
            queue=rng.choice(("default", "default", "mail")),
            priority=rng.randint(0, 9),
            at=START + rng.randint(0, 60) * SECOND if rng.random() < 0.1 else None,
            delay=rng.randint(1, 10_000_000) if rng.random() < 0.25 else 0,
            retry=Retry(rng.randint(0, 3), backoff=rng.choice(("1s", "500ms..4s", "linear 1s..3s"))),
            timeout=rng.randint(1, 4) * SECOND if rng.random() < 0.4 else None,
            expires=rng.randint(1, 8) * SECOND if rng.random() < 0.1 else None,
            key=f"key-{next(self._keys)}" if rng.random() < 0.4 else None,
        )

    async def _submit(self, orders: list[NewJob]) -> None:
        for _ in range(TRIES):
            if await self._submit_once(orders) or any(order.key is None for order in orders):
                return
            await asyncio.sleep(self._rng.uniform(0.1, 2))
            orders = [self._renamed(order) for order in orders]

    async def _submit_once(self, orders: list[NewJob]) -> bool:
        """False if the answer leaves the customer in doubt."""
        for order in orders:
            self.orders[order.id] = order
            self._note("customer", "asked", order.id, order=order)
        try:
            answers = await self._client.submit(orders)
        except (StoreError, KeyConflict) as error:
            answer = "unknown" if isinstance(error, StoreError) else "refused"
            for order in orders:
                self._note("customer", "told", order.id, answer=answer)
            return answer == "refused"
        for order, submitted in zip(orders, answers, strict=True):
            self._note("customer", "told", order.id, answer="ok", id=submitted.id, created=submitted.created)
            self._known.append(submitted.id)
        return True

    # -- second thoughts ---------------------------------------------------------------------------------------------
    async def _cancel(self) -> None:
        if not self._known:
            return
        job_id = self._rng.choice(self._known[-4:])
        try:
            (answer,) = await self._client.cancel([job_id])
        except StoreError:
            self._note("customer", "cancel", job_id, answer="in doubt")
        else:
            self._note("customer", "cancel", job_id, answer=answer.value)

    async def _replay(self) -> None:
        try:
            answers = await self._client.replay(self._known)
        except StoreError:
            self._note("customer", "replay", answer="in doubt")
        else:
            self._note("customer", "replay", answer=sum(answers))

"""Batches the items of many callers into one commit, without a timer: items that arrive during a flush form the next
batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from rota.errors import StoreUnavailable
from rota.refusals import anyones

Item = TypeVar("Item")
Answer = TypeVar("Answer")
# Longer than any store takes that still answers. Then the callers get StoreUnavailable, and may try again.
PATIENCE = 60.0


class Batcher(Generic[Item, Answer]):
    """Belongs to one event loop. `flush` gets a list of items and returns their answers in the same order.

    A batch is closed when its items weigh `limit` together, so that a commit stays short.
    """

    def __init__(
        self,
        flush: Callable[[list[Item]], Awaitable[Sequence[Answer]]],
        limit: int = 500,
        weigh: Callable[[Item], int] = lambda _: 1,
    ) -> None:
        self._flush, self._limit, self._weigh = flush, limit, weigh
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._pump: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        return self._pump is not None

    def put(self, item: Item) -> asyncio.Future[Answer]:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._pump is None:
            self._pump = asyncio.create_task(self._run())
        return future

    async def _run(self) -> None:
        try:
            await asyncio.sleep(0)  # callers that are ready in this round of the loop join the batch
            while self._waiting:
                count = self._portion()
                batch, self._waiting = self._waiting[:count], self._waiting[count:]
                await self._carry(batch)
        finally:
            self._pump = None

    def _portion(self) -> int:
        weight = 0
        for count, (item, _) in enumerate(self._waiting):
            weight += self._weigh(item)
            if count and weight > self._limit:
                return count
        return len(self._waiting)

    async def _carry(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._answers([item for item, _ in batch])
        except Exception as error:
            if len(batch) == 1 or anyones(error):
                _fail(batch, error)
            else:
                # One item may be bad, and must not fail the others.
                for one in batch:
                    await self._carry([one])
        except BaseException as error:
            _fail(batch, error)
            raise
        else:
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():
                    future.set_result(answer)

    async def _answers(self, items: list[Item]) -> Sequence[Answer]:
        try:
            async with asyncio.timeout(PATIENCE) as limit:
                return await self._flush(items)
        except TimeoutError:
            if not limit.expired():
                raise
            raise StoreUnavailable(f"the store has not answered for {PATIENCE:g} s") from None


def _fail(batch: Sequence[tuple[object, asyncio.Future[Answer]]], error: BaseException) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)

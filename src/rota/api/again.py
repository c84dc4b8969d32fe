"""Ended jobs that a key runs again: it must be one that may order them. A key for registered tasks would else run the
commands that other keys of its user have ordered."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rota.clients.jobs import JobsClient
from rota.clock import Chance
from rota.model.access import Grant
from rota.model.job import JobInfo, Spec
from rota.store.base import Store
from rota.store.values import JobFilter

PAGE = 500


async def check_again(store: Store, grant: Grant, ids: Sequence[str]) -> None:
    """Raises NotAllowed for the first of these jobs that the key may not order. Jobs of others are not there for it."""
    if grant.orders_anything:
        return
    for start in range(0, len(ids), PAGE):
        part = tuple(ids[start : start + PAGE])
        for info in (await store.page(grant.principal, JobFilter(ids=part, limit=PAGE))).jobs:
            grant.check_work(_spec(info), info.task, info.queue)


def _spec(info: JobInfo) -> Spec:
    return Spec(info.kind, msgspec.json.encode(info.spec).decode(), "")


class KeyedJobs(JobsClient):
    """The client of an access key. `whole`: the store that shows jobs with their specifications."""

    def __init__(self, store: Store, grant: Grant, chance: Chance, whole: Store | None = None) -> None:
        super().__init__(store, grant.principal, chance)
        self._grant, self._whole = grant, whole or store

    async def _run_again(self, ids: Sequence[str], again: bool = False) -> list[bool]:
        await check_again(self._whole, self._grant, ids)
        return await super()._run_again(ids, again)

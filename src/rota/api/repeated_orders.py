"""Orders that were accepted before: a client sends them again when the answer was lost.

A client makes the ids of its jobs. So a second try of the same orders collides with the jobs of the first, and is
answered as the first was. That works on every server of a store, however long after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from rota.errors import InvalidInput, KeyConflict, QuotaExceeded, StoreError
from rota.model.job import JobInfo, NewJob, Submitted, shown_order
from rota.model.principal import Principal
from rota.store.base import Store
from rota.store.values import Answer, JobFilter

PAGE = 500


async def submit(store: Store, who: Principal, orders: Sequence[Sequence[NewJob]], repeat: bool) -> list[Answer]:
    """Like the verb. `repeat`: the same orders may have been accepted before, and are answered with the jobs that they
    made."""
    try:
        answers = await store.submit(who, orders)
        return await _as_before(store, who, orders, answers) if repeat else answers
    except StoreError as error:
        if error.whole or error.passing:
            raise
        jobs = {job.id: job for order in orders for job in order}
        known = await _known(store, who, jobs) if repeat else set()
        if not known:
            raise InvalidInput("orders", "ids that are in use", "new ids, and values that the store can hold") from None
        return [await _answer(store, who, order, known) for order in orders]


async def _as_before(
    store: Store, who: Principal, orders: Sequence[Sequence[NewJob]], answers: Sequence[Answer]
) -> list[Answer]:
    """The answers of the first try. An order that was accepted may have used up the quota by which its repeat is
    refused; and jobs that are known by their keys were new if they have the ids of this order."""
    refused = [order for order, answer in zip(orders, answers, strict=True) if isinstance(answer, QuotaExceeded)]
    known = await _known(store, who, {job.id: job for order in refused for job in order})
    found: list[Answer] = []
    for order, answer in zip(orders, answers, strict=True):
        if isinstance(answer, list):
            found.append(
                [Submitted(one.id, one.created or one.id == job.id) for one, job in zip(answer, order, strict=True)]
            )
        else:
            found.append(await _answer(store, who, order, known) if any(job.id in known for job in order) else answer)
    return found


async def _answer(store: Store, who: Principal, order: Sequence[NewJob], known: set[str]) -> Answer:
    if not any(job.id in known for job in order):  # it was refused, and will be again
        (answer,) = await store.submit(who, [order])
        return answer
    return [Submitted(job.id, True) if job.id in known else await _by_key(store, who, job) for job in order]


async def _by_key(store: Store, who: Principal, job: NewJob) -> Submitted:
    """A job of an accepted order that is not there: its key belongs to an older job, or it was purged meanwhile."""
    if job.key is None:
        return Submitted(job.id, True)
    (answer,) = await store.submit(who, [[job]])
    if isinstance(answer, KeyConflict):  # alone, its content is another one
        return Submitted(answer.job_id, False)
    if isinstance(answer, list):
        return answer[0]
    raise answer


async def _known(store: Store, who: Principal, jobs: Mapping[str, NewJob]) -> set[str]:
    """The ids of these jobs that are there, with the same work."""
    ids, found = list(jobs), set[str]()
    for start in range(0, len(ids), PAGE):
        part = tuple(ids[start : start + PAGE])
        there = (await store.page(who, JobFilter(ids=part, limit=PAGE))).jobs
        found |= {info.id for info in there if _same(info, jobs[info.id])}
    return found


def _same(info: JobInfo, job: NewJob) -> bool:
    _, args = shown_order(job.spec.kind, msgspec.json.decode(job.spec.body), msgspec.json.decode(job.args))
    return (info.task, info.kind, info.queue, info.args) == (job.task, job.spec.kind, job.queue, args)

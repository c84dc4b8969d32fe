"""Tells people why the job that they wait for does not start."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rota.cli.relations import relations
from rota.cli.show import age, safe
from rota.clients.jobs import JobsClient
from rota.errors import RotaError
from rota.model.job import JobInfo
from rota.model.lifecycle import State
from rota.model.node import NodeState
from rota.model.times import as_instant

PATIENCE = 2.0
STOPPED = ("gate", "key", "alone", "held", "queue")  # reasons other than a missing node or slot


@contextmanager
def hinting(client: JobsClient, job_id: str) -> Iterator[None]:
    """Prints the reason if the job has not started after a moment."""
    task = asyncio.create_task(_hint(client, job_id))
    try:
        yield
    finally:
        task.cancel()


async def _hint(client: JobsClient, job_id: str) -> None:
    await asyncio.sleep(PATIENCE)
    with suppress(RotaError):  # the follower of the job reports the same error
        info = await client.get(job_id)
        if info.started_at is None and not info.ended:
            print(f"rota: {safe(await _why_waiting(client, info))}", file=sys.stderr)


async def _why_waiting(client: JobsClient, info: JobInfo) -> str:
    now = client.store.now()
    if info.state is State.BLOCKED and info.schedule is None:
        awaited = (await relations(client, info)).awaited()
        return f"waiting for {awaited}" if awaited else "waiting for other jobs"
    if info.state is State.BLOCKED:
        return f"waiting until the jobs before it have ended, as the overlap of schedule {info.schedule!r} says"
    if (due := as_instant(info.run_at)) > now:
        return f"waiting for its time, in {age(due - now)}"
    for reason in (await client.explain(info.id)).reasons:
        if reason.kind in STOPPED:
            return f"waiting: {reason.text}"
    nodes = [node for node in await client.store.nodes(client.who) if node.state is NodeState.LIVE and not node.gone]
    if not nodes:
        return "waiting, but no node is running: start one with `rota up`"
    if not any(info.queue in node.queues for node in nodes):
        return f"waiting, but no node serves queue {info.queue!r}: start one with `rota up --queues {info.queue}:4`"
    return f"waiting for a free slot in queue {info.queue!r}"

"""Only the session that listens and holds the lock of a node is ended by the server: nothing should come of it."""

from __future__ import annotations

import asyncio
import random
import time

from tests.chaos.cluster import NODES, Cluster
from tests.chaos.evidence import Evidence
from tests.chaos.figures import by_job
from tests.chaos.scenario import Scenario


async def run(cluster: Cluster, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        name = random.choice(NODES)
        began = time.monotonic()
        # The key of an advisory lock is shown as its two halves.
        ended = await asyncio.to_thread(
            cluster.ask,
            "SELECT pg_terminate_backend(l.pid) FROM rota.nodes n JOIN pg_locks l ON l.locktype = 'advisory' "
            "AND l.mode = 'ExclusiveLock' AND (l.classid::bigint << 32 | l.objid::bigint) = n.lock "
            "WHERE n.id = %s AND n.state = 'live'",
            name,
        )
        if ended:
            cluster.fault("session", began, name)
        await asyncio.sleep(random.uniform(1.0, 3.0))
    await asyncio.sleep(3.0)


def measure(evidence: Evidence) -> list[float]:
    """How many attempts of each job there were beyond the first: the lost session must not cost any."""
    if not evidence.of("session"):
        return []
    evidence.notes.append(f"{len(evidence.of('session'))} sessions ended")
    return [float(len(attempts) - 1) for attempts in by_job(evidence).values()]


SCENARIO = Scenario("session-lost", run, measure, "attempts beyond the first, max", 0.0, part=1.0, seconds=20.0)

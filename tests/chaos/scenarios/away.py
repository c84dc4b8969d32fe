"""PostgreSQL is away for half a minute: three leases."""

from __future__ import annotations

import asyncio
import time

from tests.chaos.cluster import Cluster
from tests.chaos.evidence import Evidence
from tests.chaos.figures import back_to_normal, starts
from tests.chaos.scenario import Scenario

AFTERWARDS = 15.0


async def run(cluster: Cluster, seconds: float) -> None:
    began = time.monotonic()
    await asyncio.to_thread(cluster.server.stop, "fast")
    await asyncio.sleep(seconds)
    await asyncio.to_thread(cluster.server.start)
    cluster.fault("away", began, until=time.monotonic())
    await asyncio.sleep(AFTERWARDS)


def measure(evidence: Evidence) -> list[float]:
    times = starts(evidence)
    return [back_to_normal(times, f.at, f.until, f.until + AFTERWARDS) for f in evidence.of("away")]


SCENARIO = Scenario(
    "away", run, measure, "95 % of throughput after it answers, max", 3.0, part=1.0, quick=15.0, profile="full"
)

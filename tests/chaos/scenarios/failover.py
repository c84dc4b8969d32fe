"""The primary is killed and its synchronous standby promoted; nodes and clients have both in their address."""

from __future__ import annotations

import asyncio
import time

from tests.chaos.cluster import Cluster
from tests.chaos.evidence import Evidence
from tests.chaos.figures import back_to_normal, starts
from tests.chaos.scenario import Scenario

NOTICED = 2.0  # until whoever watches the primary has made up their mind
AFTERWARDS = 12.0


async def run(cluster: Cluster, seconds: float) -> None:
    assert cluster.standby
    began = time.monotonic()
    await asyncio.to_thread(cluster.server.kill)
    await asyncio.sleep(NOTICED)
    await asyncio.to_thread(cluster.standby.promote)
    cluster.fault("failover", began, until=time.monotonic())
    await asyncio.sleep(AFTERWARDS)


def measure(evidence: Evidence) -> list[float]:
    times = starts(evidence)
    return [back_to_normal(times, f.at, f.until, f.until + AFTERWARDS) for f in evidence.of("failover")]


SCENARIO = Scenario(
    "failover", run, measure, "95 % of throughput after promotion, max", 3.0, part=1.0, profile="full", standby=True
)

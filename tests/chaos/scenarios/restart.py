"""PostgreSQL restarts, in turn in order (fast) and as after a crash (immediate)."""

from __future__ import annotations

import asyncio
import time

from tests.chaos.cluster import Cluster
from tests.chaos.evidence import Evidence
from tests.chaos.figures import back_to_normal, starts
from tests.chaos.scenario import Scenario
from tests.servers.postgres import Mode

BETWEEN = 10.0
MODES: tuple[Mode, ...] = ("fast", "immediate")


async def run(cluster: Cluster, seconds: float) -> None:
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        began = time.monotonic()
        await asyncio.to_thread(cluster.server.restart, MODES[count % 2])
        cluster.fault("restart", began, until=time.monotonic())
        count += 1
        await asyncio.sleep(BETWEEN)


def measure(evidence: Evidence) -> list[float]:
    times = starts(evidence)
    return [back_to_normal(times, f.at, f.until, f.until + BETWEEN) for f in evidence.of("restart")]


SCENARIO = Scenario(
    "restart", run, measure, "95 % of throughput after it answers, max", 3.0, part=1.0, profile="full", quick=20.0
)

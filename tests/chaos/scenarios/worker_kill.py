"""SIGKILL of a node in the middle of its work, again and again; each comes back after a while."""

from __future__ import annotations

import asyncio
import random
import time

from tests.chaos.cluster import NODES, Cluster
from tests.chaos.evidence import Evidence
from tests.chaos.figures import restarts
from tests.chaos.scenario import Scenario


async def run(cluster: Cluster, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        name = random.choice(NODES)
        await cluster.busy(name)
        await cluster.kill(name)
        await asyncio.sleep(random.uniform(0.1, 2.5))
        cluster.launch(name)
        await cluster.back(name)
        await asyncio.sleep(random.uniform(0.5, 1.5))


def measure(evidence: Evidence) -> list[float]:
    return restarts(evidence, evidence.of("kill"))


# So many slots that two nodes have room for the work of three: waiting for a slot is not what is measured.
SCENARIO = Scenario("worker-kill", run, measure, "its jobs start elsewhere, p99", 2.0, slots=12)

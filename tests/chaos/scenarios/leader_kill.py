"""SIGKILL of the node that leads, while timers become due the whole time."""

from __future__ import annotations

import asyncio
import time

from tests.chaos.cluster import Cluster
from tests.chaos.evidence import Evidence
from tests.chaos.figures import lateness, percentile
from tests.chaos.scenario import Scenario

AFTERWARDS = 4.0  # others lead by then


async def run(cluster: Cluster, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await cluster.until(cluster.leader, 30, "a leader")
        name = cluster.leader()
        await cluster.kill(name)
        await asyncio.sleep(AFTERWARDS)
        cluster.launch(name)
        await cluster.back(name)
        await asyncio.sleep(2.0)


def measure(evidence: Evidence) -> list[float]:
    """How much later than usual timers start while there is no leader."""
    kills = evidence.of("kill")
    if not kills:
        return []
    usual = percentile(lateness(evidence, kills[0].at - 5.0, kills[0].at), 0.5)
    return [late - usual for kill in kills for late in lateness(evidence, kill.at, kill.at + AFTERWARDS)]


SCENARIO = Scenario("leader-kill", run, measure, "extra lateness of timers, p99", 1.0, profile="timers")

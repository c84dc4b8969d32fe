"""Connections of nodes and clients are ended by the server, one after the other, at random."""

from __future__ import annotations

import asyncio
import random
import time

from tests.chaos.cluster import Cluster
from tests.chaos.evidence import Evidence
from tests.chaos.figures import back_to_normal, rate, starts, usual_rate
from tests.chaos.scenario import Scenario

AFTERWARDS = 8.0


async def run(cluster: Cluster, seconds: float) -> None:
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        await asyncio.to_thread(
            cluster.ask,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rota' "
            "ORDER BY random() LIMIT 1",
        )
        await asyncio.sleep(random.uniform(0.05, 0.4))
    cluster.fault("kills", began, until=time.monotonic())
    await asyncio.sleep(AFTERWARDS)


def measure(evidence: Evidence) -> list[float]:
    times = starts(evidence)
    for fault in evidence.of("kills"):
        before, during = usual_rate(times, fault.at), rate(times, fault.at, fault.until)
        evidence.notes.append(f"starts per second: {before:.1f} before, {during:.1f} while it lasted")
    return [back_to_normal(times, f.at, f.until, f.until + AFTERWARDS) for f in evidence.of("kills")]


SCENARIO = Scenario(
    "backend-kills", run, measure, "95 % of throughput afterwards, max", 3.0, part=1.0, seconds=20.0, profile="full"
)

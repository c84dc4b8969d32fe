"""Nodes are stopped in order (SIGTERM) and started again, one after the other, under load."""

from __future__ import annotations

import asyncio
import time

from tests.chaos.cluster import NODES, Cluster
from tests.chaos.evidence import Evidence, Exit
from tests.chaos.scenario import Scenario


async def run(cluster: Cluster, seconds: float) -> None:
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end or count < len(NODES):
        name, began = NODES[count % len(NODES)], time.monotonic()
        code, _ = await cluster.terminate(name)
        cluster.fault("stop", began, name, time.monotonic())
        if code != 0:
            cluster.evidence.exits.append(Exit(name, -1 if code is None else code, time.monotonic()))
        cluster.launch(name)
        await cluster.back(name)
        await asyncio.sleep(1.0)
        count += 1


def measure(evidence: Evidence) -> list[float]:
    """How long each node took to end. The longest job takes two seconds, so none has to be interrupted."""
    for one in evidence.tries:
        evidence.notes.append(f"{one.job}: attempt {one.fence} {one.outcome}")
    return [fault.until - fault.at for fault in evidence.of("stop")]


SCENARIO = Scenario("rolling", run, measure, "SIGTERM to exit, max", 5.0, part=1.0, seconds=20.0)

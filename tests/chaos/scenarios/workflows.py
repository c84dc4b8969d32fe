"""Random workflows are ordered the whole time, while nodes are killed one after the other."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter

from tests.chaos.cluster import Cluster
from tests.chaos.evidence import Evidence
from tests.chaos.graph_checker import check, delays
from tests.chaos.key_checker import steady
from tests.chaos.scenario import Scenario

QUIET = 3.0  # with all of them, so that there is something to measure
BEFORE, AFTER = 0.5, 1.0


async def run(cluster: Cluster, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        name = random.choice(cluster.names)
        await cluster.busy(name, jobs=1)
        began = time.monotonic()
        await cluster.kill(name)
        await asyncio.sleep(random.uniform(0.1, 2.5))
        cluster.launch(name)
        await cluster.back(name)
        cluster.fault("away", began, name, time.monotonic())
        await asyncio.sleep(random.uniform(0.2, QUIET))


def measure(evidence: Evidence) -> list[float]:
    states = Counter(row.state for row in evidence.rows)
    lost = sum(one.outcome == "crashed" for one in evidence.tries)
    evidence.notes.append(f"{len(evidence.of('kill'))} kills, {lost} attempts lost by them; jobs: {dict(states)}")
    return delays(evidence, lambda at: steady(evidence, at, BEFORE, AFTER))


# So many slots that nobody waits for one.
SCENARIO = Scenario(
    "workflows", run, measure, "children start after their last parent, p99", 1.0, profile="2.5", slots=24,
    client="tests.chaos.graph_load", check=check,
)  # fmt: skip

"""More work than two rates allow, on four nodes; these are killed one by one and all together, stopped in order and
started again, and PostgreSQL restarts."""

from __future__ import annotations

import asyncio
import random
import time

from tests.chaos.cluster import NODES, Cluster
from tests.chaos.evidence import Evidence
from tests.chaos.key_checker import check, idle_tokens, starts, steady
from tests.chaos.keys import STARTS
from tests.chaos.scenario import Scenario

QUIET = 7.0  # two windows and a little
# A token that comes back in this time may find nobody to use it.
BEFORE, AFTER = 1.0, 2.0


async def run(cluster: Cluster, seconds: float) -> None:
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        began = time.monotonic()
        match count % 5:
            case 0 | 3:
                await _kill(cluster, [random.choice(cluster.names)])
            case 1:
                await _kill(cluster, list(cluster.names))
            case 2:
                await asyncio.to_thread(cluster.server.restart, "immediate")
            case _:
                name = random.choice(cluster.names)
                await cluster.terminate(name)
                cluster.launch(name)
                await cluster.back(name)
        cluster.fault("away", began, until=time.monotonic())
        await asyncio.sleep(random.uniform(1.0, QUIET))
        count += 1


async def _kill(cluster: Cluster, names: list[str]) -> None:
    await asyncio.gather(*map(cluster.kill, names))
    await asyncio.sleep(random.uniform(0.0, 2.0))
    for name in names:
        cluster.launch(name)
    for name in names:
        await cluster.back(name)


def measure(evidence: Evidence) -> list[float]:
    counts = {key: len(starts(evidence, key)) for key in STARTS}
    begun = {(line.job, line.fence) for line in evidence.lines}
    wasted = sum((one.job, one.fence) not in begun for one in evidence.tries)
    evidence.notes.append(
        f"{len(evidence.of('away'))} faults, starts: {counts}; {wasted} tokens for attempts that came too late"
    )
    return idle_tokens(evidence, lambda at: steady(evidence, at, BEFORE, AFTER))


# A token whose attempt comes too late is lost for a whole window, and that is right: so the middle is what counts.
SCENARIO = Scenario(
    "rates", run, measure, "a token that is back is used, p50", 0.5, part=0.5, seconds=60.0, quick=20.0,
    profile="rates", client="tests.chaos.keyed_load", nodes=(*NODES, "joe"), check=check,
)  # fmt: skip

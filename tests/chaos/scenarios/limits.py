"""A line of jobs before each of several keys; one limit is changed all the time. Nodes that hold keys are killed,
stopped past their lease, and put to sleep with everything below them."""

from __future__ import annotations

import asyncio
import random
import signal
import time

from tests.chaos.cluster import Cluster
from tests.chaos.evidence import Evidence
from tests.chaos.figures import percentile
from tests.chaos.key_checker import check, holds, reuse, steady
from tests.chaos.keys import AT_ONCE, MUTEXES, POOL
from tests.chaos.scenario import Scenario
from tests.chaos.scenarios.pause import PAUSE, excused, may_exit

QUIET = 4.0
# A node that comes or goes disturbs the others for a while.
BEFORE, AFTER = 0.5, 2.0


async def run(cluster: Cluster, seconds: float) -> None:
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end or count < 3:
        name = random.choice(cluster.names)
        await cluster.busy(name, jobs=2)
        match count % 3:
            case 0:
                await _kill(cluster, name)
            case 1:
                await _stop(cluster, name, whole=False)
            case _:
                await _stop(cluster, name, whole=True)
        await asyncio.sleep(QUIET)
        count += 1


async def _kill(cluster: Cluster, name: str) -> None:
    """A few in a row: that is quicker than a pause."""
    for _ in range(3):
        began = time.monotonic()
        await cluster.kill(name)
        await asyncio.sleep(random.uniform(0.1, 2.5))
        cluster.launch(name)
        await cluster.back(name)
        cluster.fault("away", began, name, time.monotonic())
        await asyncio.sleep(random.uniform(0.5, QUIET))
        name = random.choice(cluster.names)
        await cluster.busy(name, jobs=2)


async def _stop(cluster: Cluster, name: str, whole: bool) -> None:
    pids = cluster.stop_all(name) if whole else cluster.stop(name)
    began = time.monotonic()  # only now all of them are still
    await asyncio.sleep(PAUSE)
    woken = time.monotonic()
    cluster.signal(pids[::-1], signal.SIGCONT)
    cluster.fault("sleep" if whole else "pause", began, name, woken)
    await asyncio.sleep(5.0)
    await cluster.back(name)
    cluster.fault("away", began, name, time.monotonic())


def measure(evidence: Evidence) -> list[float]:
    keys = (*MUTEXES, POOL)
    after = reuse(evidence, keys, lambda at: any(kill.at - 0.2 < at <= kill.at for kill in evidence.of("kill")))
    counts = {kind: len(evidence.of(kind)) for kind in ("kill", "pause", "sleep")}
    most = {key: _most(evidence, key) for key in AT_ONCE}
    evidence.notes += [
        f"faults: {counts}; {len(evidence.keys.changes)} changes of a limit; most at once: {most}",
        f"slots of {len(after)} attempts that were killed are used again after p50 {percentile(after, 0.5):.2f} s, "
        f"p99 {percentile(after, 0.99):.2f} s",
    ]
    return reuse(evidence, keys, lambda at: steady(evidence, at, BEFORE, AFTER))


def _most(evidence: Evidence, key: str) -> int:
    held = [one.span for one in holds(evidence, key)]
    return max((sum(other.start <= one.start < other.last for other in held) for one in held), default=0)


SCENARIO = Scenario(
    "limits", run, measure, "a freed slot is used again, max", 1.0, part=1.0, seconds=75.0, quick=5.0,
    profile="limits", client="tests.chaos.keyed_load", slots=12, excused=excused, may_exit=may_exit, check=check,
)  # fmt: skip

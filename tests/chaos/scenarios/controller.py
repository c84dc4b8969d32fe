"""SIGKILL of a node alone, SIGSTOP of it past its lease, and sleep of its whole machine, while commands and functions
run that have left processes behind: nothing that it started survives, whatever it was (I15).

Whether something does is known by pids: all that stood below the node when it was struck.
"""

from __future__ import annotations

import asyncio
import math
import random
import signal
import time

from tests.chaos.cluster import Cluster
from tests.chaos.crash_checker import GOING, LEASE, check, refusals
from tests.chaos.evidence import Evidence
from tests.chaos.scenario import POSTGRES, SQLITE, Scenario
from tests.chaos.scenarios.pause import PAUSE, excused, may_exit

PATIENCE = 5.0


async def run(cluster: Cluster, seconds: float) -> None:
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end or count < 3:
        name = random.choice(cluster.names)
        await cluster.busy(name, 4)
        await (_kill, _stop, _sleep)[count % 3](cluster, name)
        count += 1


async def _kill(cluster: Cluster, name: str) -> None:
    """A few in a row: that is quicker than a pause."""
    for _ in range(4):
        await cluster.busy(name, 4)
        tree = cluster.identities(name)
        fault = await cluster.kill(name)
        await _gone(cluster, name, tree, fault.at)
        await asyncio.sleep(random.uniform(0.1, 1.0))
        cluster.launch(name)
        await cluster.back(name)
        name = random.choice(cluster.names)


async def _stop(cluster: Cluster, name: str) -> None:
    """Its keeper is awake, and ends everything, the node too, when the lease is over."""
    tree, began = cluster.identities(name), time.monotonic()
    while cluster.stop(name) and cluster.records.blocked():  # in the middle of a write: then nobody could write
        cluster.signal([cluster.nodes[name].pid], signal.SIGCONT)
        began = time.monotonic()
    await _gone(cluster, name, tree, began + LEASE)
    cluster.fault("pause", began, name, time.monotonic())
    await cluster.back(name)


async def _sleep(cluster: Cluster, name: str) -> None:
    """When all of it wakes up it has no lease any more: only fences keep it from being heard. Then it must go, too."""
    while (pids := cluster.stop_all(name)) and cluster.records.blocked():
        cluster.signal(pids[::-1], signal.SIGCONT)
    tree, began = cluster.identities(name), time.monotonic()
    await asyncio.sleep(PAUSE)
    woken = time.monotonic()
    cluster.signal(pids[::-1], signal.SIGCONT)
    cluster.fault("sleep", began, name, woken)
    await _gone(cluster, name, tree, woken)
    await cluster.back(name)


async def _gone(cluster: Cluster, name: str, tree: dict[int, str], due: float) -> None:
    """Notes when the last of them was gone."""
    while cluster.alive(tree):
        if time.monotonic() > due + PATIENCE:
            cluster.fault("gone", due, name, math.inf, cluster.alive(tree))
            return
        await asyncio.sleep(0.01)
    cluster.fault("gone", due, name, time.monotonic())


def measure(evidence: Evidence) -> list[float]:
    counts = {kind: len(evidence.of(kind)) for kind in ("kill", "pause", "sleep")}
    evidence.notes.append(f"{counts}; {refusals(evidence)} checkpoints of stale attempts were refused")
    return [max(0.0, fault.until - fault.at) for fault in evidence.of("gone")]


SCENARIO = Scenario(
    "controller", run, measure, "all below a node is gone with it or its lease, max", GOING, part=1.0, seconds=60.0,
    quick=5.0, profile="calm", client="tests.chaos.hazard_load", app="tests.chaos.hazards:app", slots=12,
    excused=excused, may_exit=may_exit, check=check, stores=(POSTGRES, SQLITE),
)  # fmt: skip

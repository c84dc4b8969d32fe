"""Jobs write all the time, some of them floods, while nodes, the leader that seals, and PostgreSQL die under them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence

from tests.chaos.cluster import NODES, Cluster
from tests.chaos.evidence import Evidence, Exit
from tests.chaos.figures import percentile, restarts
from tests.chaos.output_checker import check
from tests.chaos.output_cluster import OutputCluster
from tests.chaos.scenario import Scenario
from tests.chaos.scenarios import pause
from tests.servers.postgres import Mode

QUICKEST = 6
UNABLE = (1, 2)  # exit codes
STARTING = 12.0  # seconds: a lease, and a little more


async def run(cluster: Cluster, seconds: float) -> None:
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end or count < QUICKEST:
        await STRIKES[count % len(STRIKES)](cluster)
        await asyncio.sleep(random.uniform(0.5, 2.0))
        count += 1


async def _kill(cluster: Cluster, name: str) -> None:
    await cluster.kill(name)
    await asyncio.sleep(random.uniform(0.1, 4.0))  # so that what it left is sealed meanwhile, at times
    cluster.launch(name)
    await cluster.back(name)


async def _kill_one(cluster: Cluster) -> None:
    name = random.choice(NODES)
    await cluster.busy(name)
    await _kill(cluster, name)


async def _kill_leader(cluster: Cluster) -> None:
    """It seals all the time."""
    await cluster.until(cluster.leader, 30, "a leader")
    await _kill(cluster, cluster.leader())


async def _kill_all(cluster: Cluster) -> None:
    await asyncio.gather(*(_kill(cluster, name) for name in NODES))


def _restart(mode: Mode) -> Callable[[Cluster], Awaitable[None]]:
    async def strike(cluster: Cluster) -> None:
        began = time.monotonic()
        await asyncio.to_thread(cluster.server.restart, mode)
        cluster.fault("away", began, until=time.monotonic())

    return strike


async def _kill_meanwhile(cluster: Cluster) -> None:
    """The node dies while the store can't be asked."""
    name = random.choice(NODES)
    await cluster.busy(name)
    await asyncio.gather(_restart("immediate")(cluster), _kill(cluster, name))


async def _stop(cluster: Cluster) -> None:
    await pause.run(cluster, 0.1)


STRIKES: Sequence[Callable[[Cluster], Awaitable[None]]] = (
    _kill_one, _restart("fast"), _kill_leader, _kill_meanwhile, _restart("immediate"), _kill_all, _stop, _kill_one,
    _kill_leader,
)  # fmt: skip


def may_exit(evidence: Evidence, exit: Exit) -> bool:
    """A node that is started while PostgreSQL is away ends; also one whose former life was not declared dead yet."""
    away = any(fault.at < exit.at < fault.until + STARTING for fault in evidence.of("away"))
    return pause.may_exit(evidence, exit) or (exit.code in UNABLE and away)


def measure(evidence: Evidence) -> list[float]:
    lost = [one.outcome for one in evidence.tries].count("crashed")
    shown = sum(len(part.body) for one in evidence.scribbles.values() for part in one.shown)
    marks = sum(part.left_out > 0 for one in evidence.scribbles.values() for part in one.shown)
    kinds = {kind: len(evidence.of(kind)) for kind in ("kill", "pause", "away")}
    moved = restarts(evidence, evidence.of("kill"))
    evidence.notes += [
        f"faults: {kinds}; {lost} attempts crashed",
        f"{len(evidence.scribbles)} attempts wrote; {shown:,} bytes are shown, {marks} marks stand for the rest",
        f"jobs of killed nodes started elsewhere within p50 {percentile(moved, 0.5):.2f} s",
    ]
    return moved


SCENARIO = Scenario(
    "output", run, measure, "jobs of a killed node start elsewhere, p50", 12.0, part=0.5, seconds=90.0, quick=12.0,
    profile="output", client="tests.chaos.output_load", app="tests.chaos.output_app:app", slots=8, stage=OutputCluster,
    excused=pause.excused, may_exit=may_exit, check=check,
)  # fmt: skip

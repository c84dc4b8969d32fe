"""Commands and functions write all the time, some of them floods, while nodes, the leader that seals, and PostgreSQL
die under them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence

from tests.chaos.cluster import NODES, Cluster
from tests.chaos.evidence import Evidence, Exit, Fault
from tests.chaos.figures import percentile, restarts
from tests.chaos.output_checker import check
from tests.chaos.output_cluster import OutputCluster
from tests.chaos.scenario import Scenario
from tests.chaos.scenarios import pause
from tests.servers.postgres import Mode

UNREACHABLE, ID_IN_USE = 1, 2  # exit codes
LEASE = 12.0  # seconds, and a little more
ANSWERS = 2.0  # seconds until a server that has started lets everybody in
TOGETHER = 1.0  # second


async def run(cluster: Cluster, seconds: float) -> None:
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end or count < len(STRIKES):
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
    _kill_one, _stop, _restart("fast"), _kill_leader, _kill_meanwhile, _restart("immediate"), _kill_all,
)  # fmt: skip


def may_exit(evidence: Evidence, exit: Exit) -> bool:
    """A node that is started while PostgreSQL is away ends: only nodes that have joined before wait for their store.

    A node that was killed near a restart of PostgreSQL can't be proved dead before the end of its lease, because its
    lock was on the server before. Till then its id is refused. Its supervisor tries again, as ours does."""
    away, killed = evidence.of("away"), evidence.of("kill")
    if exit.code == UNREACHABLE:
        return any(one.at < exit.at < one.until + ANSWERS for one in away)
    if exit.code == ID_IN_USE:
        return any(one.node == exit.node and 0 < exit.at - one.at < LEASE and _near(one, away) for one in killed)
    return pause.may_exit(evidence, exit)


def _near(kill: Fault, away: Sequence[Fault]) -> bool:
    return any(one.at - LEASE < kill.at < one.until + LEASE for one in away)


def _alone(evidence: Evidence, kill: Fault) -> bool:
    """PostgreSQL answers, and there are nodes to take over."""
    others = [one for one in evidence.of("kill") if one is not kill and abs(one.at - kill.at) < TOGETHER]
    return not others and not _near(kill, evidence.of("away"))


def measure(evidence: Evidence) -> list[float]:
    lost = [one.outcome for one in evidence.tries].count("crashed")
    shown = sum(len(part.body) for one in evidence.scribbles.values() for part in one.shown)
    marks = sum(part.left_out > 0 for one in evidence.scribbles.values() for part in one.shown)
    kinds = {kind: len(evidence.of(kind)) for kind in ("kill", "pause", "away")}
    moved = restarts(evidence, [kill for kill in evidence.of("kill") if _alone(evidence, kill)])
    others = restarts(evidence, [kill for kill in evidence.of("kill") if not _alone(evidence, kill)])
    evidence.notes += [
        f"faults: {kinds}; {lost} attempts crashed",
        f"{len(evidence.scribbles)} attempts wrote; {shown:,} bytes are shown, {marks} marks stand for the rest",
        f"after kills of all nodes, and near restarts of PostgreSQL, p50 {percentile(others, 0.5):.2f} s",
    ]
    return moved


SCENARIO = Scenario(
    "output", run, measure, "jobs of a node that is killed alone start elsewhere, p50", 5.0, part=0.5, seconds=90.0,
    quick=12.0, profile="output", client="tests.chaos.output_load", app="tests.chaos.output_app:app", slots=8,
    stage=OutputCluster, excused=pause.excused, may_exit=may_exit, check=check,
)  # fmt: skip

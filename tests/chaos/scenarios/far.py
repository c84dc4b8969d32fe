"""Far-away workers and clients over HTTP, while everything in between breaks.

Workers are killed and stopped, servers are killed and restarted, PostgreSQL restarts, several of them at once. The link
of one worker is cut, half open, or loses answers the whole time, and leads to another server each time.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable, Sequence

from tests.chaos.cluster import Cluster
from tests.chaos.evidence import Evidence, Exit
from tests.chaos.far_checker import check
from tests.chaos.far_cluster import DIRECT, LINKED, SERVERS, WORKERS, FarCluster
from tests.chaos.figures import percentile, restarts
from tests.chaos.key_checker import reuse, steady
from tests.chaos.keys import MUTEXES
from tests.chaos.scenario import Scenario
from tests.chaos.scenarios.pause import PAUSE, excused
from tests.servers.postgres import Mode

QUIET = 3.0  # seconds between two faults
# A link that is away for so long is no reason to stop anything; for the longer time it is.
SHORT, LONG = (1.0, 4.0), (11.0, 14.0)
LINK_PAUSE = (2.0, 4.0)
PAUSE_GOAL = 12.0

Strike = Callable[[FarCluster], Awaitable[None]]


async def run(cluster: Cluster, seconds: float) -> None:
    assert isinstance(cluster, FarCluster)
    breaking = asyncio.create_task(_break_link(cluster))
    end, count = time.monotonic() + seconds, 0
    try:
        while time.monotonic() < end or count < QUICKEST:
            await STRIKES[count % len(STRIKES)](cluster)
            await asyncio.sleep(QUIET)
            count += 1
    finally:
        breaking.cancel()
        await asyncio.wait([breaking])
        cluster.link.mend()
    breaking.cancelled() or breaking.result()


# -- the link ---------------------------------------------------------------------------------------------------------
async def _break_link(cluster: FarCluster) -> None:
    link, count = cluster.link, 0
    ways = (link.cut, link.freeze, link.drop_replies, link.kill_connections)
    while True:
        await asyncio.sleep(random.uniform(*LINK_PAUSE))
        cluster.lead_to(SERVERS[count % 2])
        began = time.monotonic()
        ways[count % len(ways)]()
        await asyncio.sleep(random.uniform(*(LONG if count % 5 == 2 else SHORT)))
        link.mend()
        cluster.fault("link", began, LINKED, time.monotonic())
        count += 1


# -- processes --------------------------------------------------------------------------------------------------------
async def _kill_worker(cluster: FarCluster) -> None:
    """The one whose figures count: nothing else is broken but the link of another worker."""
    name = random.choice(list(DIRECT))
    await cluster.busy(name, jobs=2)
    await cluster.kill(name)
    await asyncio.sleep(random.uniform(0.1, 2.5))
    await _launch(cluster, name)


async def _stop_worker(cluster: FarCluster) -> None:
    await _stop(cluster, whole=False)


async def _stop_machine(cluster: FarCluster) -> None:
    await _stop(cluster, whole=True)


async def _stop(cluster: FarCluster, whole: bool) -> None:
    name = random.choice(list(DIRECT))
    await cluster.busy(name, jobs=2)
    pids = cluster.stop_all(name) if whole else cluster.stop(name)
    began = time.monotonic()
    await asyncio.sleep(PAUSE)
    woken = time.monotonic()
    cluster.signal(pids[::-1], signal.SIGCONT)
    cluster.fault("sleep" if whole else "pause", began, name, woken)
    await asyncio.sleep(5.0)
    await cluster.back(name)


async def _kill_servers(cluster: FarCluster, *names: str) -> None:
    began = time.monotonic()
    await asyncio.gather(*(cluster.kill(name, "server") for name in names))
    await asyncio.sleep(random.uniform(0.1, 2.0))
    await _launch(cluster, *names)
    cluster.fault("away", began, until=time.monotonic())


async def _kill_server(cluster: FarCluster) -> None:
    await _kill_servers(cluster, random.choice(SERVERS))


async def _kill_both(cluster: FarCluster) -> None:
    await _kill_servers(cluster, *SERVERS)


async def _restart_server(cluster: FarCluster) -> None:
    name, began = random.choice(SERVERS), time.monotonic()
    code, took = await cluster.terminate(name)
    await _launch(cluster, name)
    cluster.fault("away", began, until=time.monotonic())
    if code != 0:
        cluster.evidence.exits.append(Exit(name, -1 if code is None else code, time.monotonic()))
        cluster.evidence.notes.append(f"{name} was told to stop and ended with {code} after {took:.1f} s")


async def _kill_worker_and_server(cluster: FarCluster) -> None:
    """Nobody is left who has seen the end of the line."""
    name = random.choice(list(DIRECT))
    await cluster.busy(name, jobs=2)
    await asyncio.gather(_kill_servers(cluster, DIRECT[name]), cluster.kill(name, "struck"))
    await _launch(cluster, name)


async def _launch(cluster: FarCluster, *names: str) -> None:
    for name in names:
        cluster.launch(name)
    for name in names:
        await cluster.back(name)


# -- PostgreSQL -------------------------------------------------------------------------------------------------------
def _restart(mode: Mode) -> Strike:
    async def strike(cluster: FarCluster) -> None:
        began = time.monotonic()
        await asyncio.to_thread(cluster.server.restart, mode)
        cluster.fault("away", began, until=time.monotonic())

    return strike


async def _kill_worker_meanwhile(cluster: FarCluster) -> None:
    """The line ends while the store can't be asked."""
    name = random.choice(list(DIRECT))
    await cluster.busy(name, jobs=2)
    await asyncio.gather(_restart("immediate")(cluster), cluster.kill(name, "struck"))
    await _launch(cluster, name)


STRIKES: Sequence[Strike] = (
    _kill_worker,
    _restart("fast"),
    _kill_server,
    _kill_worker_meanwhile,
    _kill_worker,
    _kill_worker_and_server,
    _stop_machine,
    _restart("immediate"),
    _kill_both,
    _stop_worker,
    _kill_worker,
    _restart_server,
)
QUICKEST = 6


# -- figures ----------------------------------------------------------------------------------------------------------
def measure(evidence: Evidence) -> list[float]:
    counts = {kind: len(evidence.of(kind)) for kind in ("kill", "struck", "pause", "sleep", "server", "away", "link")}
    freed = reuse(evidence, MUTEXES, lambda at: steady(evidence, at, 0.5, 2.0))
    asides = {word: sum(one.word == word for one in evidence.asides) for word in ("cancel", "clash")}
    evidence.notes += [
        f"faults: {counts}; {asides}; {sum(one.outcome == 'crashed' for one in evidence.tries)} attempts crashed",
        f"{len(freed)} freed keys are used again after p50 {percentile(freed, 0.5):.2f} s, "
        f"max {percentile(freed, 1):.2f} s",
    ]
    return restarts(evidence, evidence.of("kill"))


def missed(evidence: Evidence) -> list[str]:
    paused = restarts(evidence, evidence.of("pause", "sleep"))
    if paused:
        evidence.notes.append(f"{len(paused)} jobs of stopped workers started elsewhere within {max(paused):.2f} s")
    return [f"stopped worker: {max(paused):.2f} s > {PAUSE_GOAL:g} s"] if max(paused, default=0.0) > PAUSE_GOAL else []


def may_exit(evidence: Evidence, exit: Exit) -> bool:
    """A keeper ends a worker that is past its lease with functions that it can't stop one by one."""
    reasons = ("pause", "sleep", "link", "away")
    faults = [fault for fault in evidence.of(*reasons) if fault.node in ("", exit.node)]
    in_time = any(fault.at < exit.at < fault.until + 5 for fault in faults)
    return exit.node in WORKERS and exit.code == -signal.SIGKILL and in_time


SCENARIO = Scenario(
    "far-workers", run, measure, "jobs of a killed worker start elsewhere, max", 3.0, part=1.0, seconds=120.0,
    quick=25.0, profile="far", client="tests.chaos.far_load", slots=12, nodes=(*SERVERS, *WORKERS), stage=FarCluster,
    excused=excused, may_exit=may_exit, check=check, missed=missed,
)  # fmt: skip

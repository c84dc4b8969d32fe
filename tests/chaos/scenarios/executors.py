"""Whatever runs the jobs is killed and stopped under load: processes of the pool, the fork server that they are forked
from, the host that functions share, the keeper above all of them. Some jobs crash by themselves as well.

The node itself is never touched: it must go on, and so must all jobs that are not to blame.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter

from tests.chaos.cluster import Cluster
from tests.chaos.crash_checker import POISON, check, crashed, had_to_wait, recoveries, runs_of
from tests.chaos.evidence import Evidence
from tests.chaos.figures import percentile
from tests.chaos.scenario import POSTGRES, SQLITE, Scenario

FUNCTION, HOST, KEEPER = "rota-function", "rota-host", "rota-keeper"
# A host that does not answer for 30 s is killed; one that sleeps for a moment loses nothing.
HUNG, NAP = 36.0, 4.0
# A keeper or fork server that is stopped is set going again after 1.5 s. A keeper that is stopped again and again is
# replaced after 5 s.
REPLACED = 9.0
WEIGHTS = {"process": 7, "host": 2, "forkserver": 1, "keeper": 1, "keeper stopped": 1, "keeper held": 0.5, "nap": 1,
           "forkserver stopped": 1}  # fmt: skip


async def run(cluster: Cluster, seconds: float) -> None:
    end = time.monotonic() + seconds
    *others, last = cluster.names
    stopping = asyncio.create_task(_stop_host(cluster, last, "host stopped", HUNG if seconds >= HUNG else NAP))
    while time.monotonic() < end or not stopping.done():
        name = random.choice(cluster.names if stopping.done() else others)
        await cluster.busy(name)
        await _strike(cluster, name, random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0])
        await asyncio.sleep(random.uniform(0.3, 1.5))
    await stopping


async def _strike(cluster: Cluster, name: str, kind: str) -> None:
    match kind:
        case "process":
            found = cluster.processes(name, FUNCTION)
            _kill(cluster, name, kind, random.sample(found, min(len(found), random.randint(1, 3))))
        case "host":
            _kill(cluster, name, kind, cluster.processes(name, HOST))
        case "forkserver" | "keeper":
            _kill(cluster, name, kind, cluster.processes(name, f"rota-{kind}"))
        case "keeper stopped" | "forkserver stopped":
            cluster.fault(kind, time.monotonic(), name)
            cluster.signal(cluster.processes(name, f"rota-{kind.partition(' ')[0]}"), signal.SIGSTOP)
        case "keeper held":
            await _hold_keeper(cluster, name)
        case "nap":
            await _stop_host(cluster, name, kind, NAP)


def _kill(cluster: Cluster, name: str, kind: str, pids: list[int]) -> None:
    if pids:
        cluster.fault(kind, time.monotonic(), name, pids=pids)
        cluster.signal(pids, signal.SIGKILL)


async def _hold_keeper(cluster: Cluster, name: str) -> None:
    """Whenever it is set going it is stopped again, until there is another one."""
    began, pids = time.monotonic(), cluster.processes(name, KEEPER)
    while time.monotonic() < began + REPLACED and set(pids) & set(cluster.processes(name, KEEPER)):
        cluster.signal(pids, signal.SIGSTOP)
        await asyncio.sleep(0.02)
    cluster.signal(pids, signal.SIGCONT)
    cluster.fault("keeper", began, name, time.monotonic())


async def _stop_host(cluster: Cluster, name: str, kind: str, seconds: float) -> None:
    await cluster.until(lambda: cluster.processes(name, HOST), 30.0, f"a host on {name}")
    began, pids = time.monotonic(), cluster.processes(name, HOST)
    cluster.signal(pids, signal.SIGSTOP)
    await asyncio.sleep(seconds)
    cluster.signal(pids, signal.SIGCONT)
    cluster.fault(kind, began, name, time.monotonic(), pids)


def measure(evidence: Evidence) -> list[float]:
    struck = Counter(fault.kind for fault in evidence.faults)
    lost = sum(len(crashed(runs)) for runs in runs_of(evidence).values())
    dead = sum(row.state == "failed" for row in evidence.rows)
    poison = sum(order.kind == POISON for order in evidence.told.values())
    evidence.notes.append(
        f"strikes: {dict(struck)}; {lost} attempts crashed; {dead} jobs in the dead letters, {poison} were poison"
    )
    anew = recoveries(evidence, lambda run: had_to_wait(evidence, run))
    evidence.notes.append(
        f"where fork server or keeper were new or stopped: {len(anew)}, p50 {percentile(anew, 0.5):.2f} s, "
        f"p99 {percentile(anew, 0.99):.2f} s"
    )
    return recoveries(evidence, lambda run: not had_to_wait(evidence, run))


SCENARIO = Scenario(
    "executors", run, measure, "after their first crash jobs start again, p99", 2.0, seconds=45.0, quick=12.0,
    profile="crashing", client="tests.chaos.hazard_load", app="tests.chaos.hazards:app", slots=12, check=check,
    stores=(POSTGRES, SQLITE),
)  # fmt: skip

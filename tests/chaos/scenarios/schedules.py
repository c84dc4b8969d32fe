"""Two hundred schedules fire every second or two, while nodes are killed one after the other and once all together, the
leader is stopped for a while, and the wall clocks of two nodes are a minute ahead and a minute behind."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Callable

from tests.chaos.cluster import NODES, Cluster
from tests.chaos.evidence import Evidence, Fault
from tests.chaos.figures import percentile
from tests.chaos.fire_checker import check
from tests.chaos.rules import SECOND
from tests.chaos.scenario import Scenario

STOP = 4.0
ALONE = 3.0  # without the node that was killed
QUIET = 5.0  # with all of them
# A node that comes or goes disturbs the others for a while: steady is what is further away from all faults.
DISTURBED = 2.0
# Fires that are due so soon after the leader was killed have to do without one.
LEADERLESS = 3.0
# Of all fires. Half of them share their instant with a hundred others (every full second): the report shows apart how
# late those are, and those that come one by one.
STEADY = 0.015


async def run(cluster: Cluster, seconds: float) -> None:
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        await cluster.until(cluster.leader, 30, "a leader")
        leader = cluster.leader()
        match count % 6:
            case 0 | 2 | 5:
                await _kill(cluster, [leader], "leader")
            case 1:
                await _stop(cluster, leader)
            case 3:
                await _kill(cluster, list(NODES), "all")
            case _:
                await _kill(cluster, [random.choice([name for name in NODES if name != leader])], "follower")
        await asyncio.sleep(QUIET)
        count += 1
    last = int((cluster.folder / "end").read_text()) / SECOND
    await asyncio.sleep(max(0.0, last + 1.0 - time.time()))


async def _kill(cluster: Cluster, names: list[str], kind: str) -> None:
    began = time.monotonic()
    await asyncio.gather(*map(cluster.kill, names))
    cluster.fault(kind, began, names[0])
    await asyncio.sleep(ALONE)
    launched = time.monotonic()
    for name in names:
        cluster.launch(name)
    for name in names:
        await cluster.back(name)
    cluster.fault("launch", launched, names[0], time.monotonic())


async def _stop(cluster: Cluster, name: str) -> None:
    began, pids = time.monotonic(), [cluster.nodes[name].pid]
    cluster.signal(pids, signal.SIGSTOP)
    await asyncio.sleep(STOP)
    woken = time.monotonic()
    cluster.signal(pids, signal.SIGCONT)
    cluster.fault("stopped", began, name, woken)


def late(evidence: Evidence, chosen: Callable[[float], bool], crowd: bool | None = None) -> list[float]:
    """Seconds from each fire whose time (monotonic) is chosen to the first start of its job, by the server's clock."""
    first = evidence.lines[0]
    offset = first.wall - first.at
    jobs = [job for job in evidence.fires.jobs if job.started is not None and job.name.startswith("sure-")]
    jobs = [job for job in jobs if crowd in (None, job.fire % SECOND == 0)]
    return [((job.started or 0) - job.fire) / SECOND for job in jobs if chosen(job.fire / SECOND - offset)]


def steady(evidence: Evidence, crowd: bool | None = None) -> list[float]:
    begun = min((job.fire for job in evidence.fires.jobs), default=0) / SECOND
    begun -= evidence.lines[0].wall - evidence.lines[0].at
    faults = [*evidence.faults, Fault(begun, "begin", until=begun + 10.0)]  # while schedules are still put in
    return late(evidence, lambda at: not any(_near(fault, at) for fault in faults), crowd)


def _near(fault: Fault, at: float) -> bool:
    until = fault.until or fault.at + ALONE
    return fault.at - DISTURBED / 4 <= at <= until + DISTURBED


def measure(evidence: Evidence) -> list[float]:
    kills = evidence.of("leader")
    stopped = evidence.of("stopped", "all")
    after = late(evidence, lambda at: any(kill.at <= at < kill.at + LEADERLESS for kill in kills))
    others = late(evidence, lambda at: any(fault.at <= at < fault.at + LEADERLESS for fault in stopped))
    figures = {
        "steady": steady(evidence), "of these, one by one": steady(evidence, crowd=False),
        "of these, a hundred at an instant": steady(evidence, crowd=True),
        "leader killed": after, "leader stopped, all killed": others,
    }  # fmt: skip
    for name, values in figures.items():
        shown = ", ".join(f"p{part} {percentile(values, part / 100) * 1000:.1f} ms" for part in (50, 99, 100))
        evidence.notes.append(f"{name}: {len(values)} fires late by {shown}")
    counts = {kind: len(evidence.of(kind)) for kind in ("leader", "follower", "all", "stopped")}
    restarted = sum(job.losses > 0 for job in evidence.fires.jobs)
    evidence.notes.append(f"faults: {counts}; {len(evidence.fires.rows)} fires, {restarted} of them started again")
    skipped = sum(skip.count or 0 for skip in evidence.fires.skips)
    deeds = sum(len(deeds) for deeds in evidence.fires.deeds.values())
    unsure = sum(not deed.ok for deeds in evidence.fires.deeds.values() for deed in deeds)
    evidence.notes.append(
        f"{deeds} changes by the client ({unsure} without an answer), {skipped} fires skipped by pauses"
    )
    return after


def missed(evidence: Evidence) -> list[str]:
    return [] if percentile(steady(evidence), 0.99) <= STEADY else ["steady p99 above 15 ms"]


SCENARIO = Scenario(
    "schedules", run, measure, "fires after a kill of the leader, p99", 1.0, seconds=120.0, quick=30.0, profile="200",
    client="tests.chaos.timetable", slots=250, skews={"ann": 60.0, "eve": -60.0}, check=check, missed=missed,
)  # fmt: skip

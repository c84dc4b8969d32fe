"""The hot tier breaks in every way, under timers, plain jobs and retries: SIGKILL, SIGSTOP, FLUSHALL, an old snapshot
restored; of three one is cut off. In between the leader and PostgreSQL suffer too."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from tests.chaos.cluster import Cluster
from tests.chaos.evidence import Evidence, Fault
from tests.chaos.figures import back_to_normal, by_job, lateness, percentile, rate, starts, usual_rate
from tests.chaos.hot_cluster import HotCluster, HotCluster3
from tests.chaos.scenario import Scenario

QUIET = 8.0
AWAY, ASLEEP, OLD, CUT = 3.0, 11.0, 4.0, 6.0
LEADER_STOPPED = 4.0
ENOUGH = 0.9
# Whatever the hot tier does a due job starts so late at most: the sweep comes every 2 s.
LATEST = 2.5
OF_TIER = ("kill", "stop", "flush", "restore", "cut", "freeze")
BACKOFF = 1.0


async def _kill(cluster: HotCluster) -> Fault:
    return Fault(await cluster.restart_hot(cluster.valkeys[0], AWAY), "kill", until=time.monotonic())


async def _stop(cluster: HotCluster) -> Fault:
    began = time.monotonic()
    cluster.valkeys[0].pause()
    await asyncio.sleep(ASLEEP)
    cluster.valkeys[0].resume()
    return Fault(began, "stop", until=time.monotonic())


async def _flush(cluster: HotCluster) -> Fault:
    for one in cluster.valkeys:
        one.call("FLUSHALL")
    return Fault(time.monotonic(), "flush", until=time.monotonic())


async def _restore(cluster: HotCluster) -> Fault:
    return Fault(await cluster.restart_hot(cluster.valkeys[0], 0.0, OLD), "restore", until=time.monotonic())


async def _cut(cluster: HotCluster) -> Fault:
    began = time.monotonic()
    cluster.links[1].cut()
    await asyncio.sleep(CUT)
    cluster.links[1].mend()
    return Fault(began, "cut", until=time.monotonic())


async def _freeze(cluster: HotCluster) -> Fault:
    """Its connections stay open, and nothing gets through."""
    began = time.monotonic()
    cluster.links[2].freeze()
    await asyncio.sleep(CUT)
    cluster.links[2].thaw()
    return Fault(began, "freeze", until=time.monotonic())


async def _kill_leader(cluster: HotCluster) -> Fault:
    await cluster.until(cluster.leader, 30, "a leader")
    name = cluster.leader()
    fault = await cluster.kill(name, "leader killed")
    cluster.evidence.faults.remove(fault)
    cluster.launch(name)
    await cluster.back(name)
    return replace(fault, until=time.monotonic())


async def _stop_leader(cluster: HotCluster) -> Fault:
    await cluster.until(cluster.leader, 30, "a leader")
    name = cluster.leader()
    pids, began = cluster.stop(name), time.monotonic()
    await asyncio.sleep(LEADER_STOPPED)
    cluster.signal(pids, signal.SIGCONT)
    return Fault(began, "leader stopped", name, time.monotonic())


async def _restart(cluster: HotCluster) -> Fault:
    began = time.monotonic()
    await asyncio.to_thread(cluster.server.restart, "fast")
    return Fault(began, "postgres", until=time.monotonic())


ONE = (_kill, _kill_leader, _stop, _flush, _stop_leader, _restore, _restart)
THREE = (_cut, _freeze, _kill, _kill_leader, _flush, _stop, _restore, _stop_leader)
Strike = Callable[[HotCluster], Awaitable[Fault]]


async def run(cluster: Cluster, seconds: float) -> None:
    assert isinstance(cluster, HotCluster)
    strikes: tuple[Strike, ...] = THREE if cluster.links else ONE
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        cluster.evidence.faults.append(await strikes[count % len(strikes)](cluster))
        count += 1
        await asyncio.sleep(QUIET)


def measure(evidence: Evidence) -> list[float]:
    """Notes how late timers were during each fault and after it, and throughput; returns how soon that was back."""
    times, found = starts(evidence), list[float]()
    _note_late(evidence, "without faults", _timers(evidence, times[0] + 4.0, times[-1]), "")
    for kind in dict.fromkeys(fault.kind for fault in evidence.faults):
        faults = evidence.of(kind)
        late = [value for fault in faults for value in lateness(evidence, fault.at, fault.until + 3.0)]
        shares = [_shares(times, fault) for fault in faults]
        shown = "; ".join("/".join(f"{share:.0f}" for share in each) for each in shares)
        _note_late(evidence, kind, late, f"; starts/s before/during/after {shown}")
        found += [back_to_normal(times, f.at, f.until, f.until + QUIET, ENOUGH) for f in faults]
    retries = _retries(evidence)
    _note_late(evidence, "retries, in all", retries, "")
    return found


def _timers(evidence: Evidence, since: float, until: float) -> list[float]:
    """Of those that are away from all faults."""
    calm = sorted((fault.at - 0.5, fault.until + 3.0) for fault in evidence.faults)
    found: list[float] = []
    for begin, end in zip([since, *(end for _, end in calm)], [*(begin for begin, _ in calm), until], strict=True):
        found += lateness(evidence, begin, end)
    return found


def _retries(evidence: Evidence) -> list[float]:
    """From the end of each back-off to the next start, where no attempt was lost to a fault."""
    found: list[float] = []
    failed = {row.job for row in evidence.rows if row.failures == 1 and row.crashes == 0 and row.fence == 2}
    for job, attempts in by_job(evidence).items():
        if job in failed and len(attempts) == 2:
            found.append(attempts[1].start - attempts[0].last - BACKOFF)
    return found


def _shares(times: list[float], fault: Fault) -> tuple[float, float, float]:
    during = rate(times, fault.at, max(fault.until, fault.at + 1.0))
    return usual_rate(times, fault.at), during, rate(times, fault.until + 1.0, fault.until + 4.0)


def _note_late(evidence: Evidence, about: str, late: list[float], rest: str) -> None:
    shown = ", ".join(f"p{part} {percentile(late, part / 100) * 1000:.1f} ms" for part in (50, 99, 100))
    evidence.notes.append(f"{about}: {len(late)} timers late by {shown}{rest}")


def missed(evidence: Evidence) -> list[str]:
    late = [
        f"{kind}: a timer was {max(values):.2f} s late"
        for kind in OF_TIER
        if (values := [one for f in evidence.of(kind) for one in lateness(evidence, f.at, f.until + 3.0)])
        and max(values) > LATEST
    ]
    return [*late, *(["no retry was measured"] if not _retries(evidence) else [])]


HOT = Scenario(
    "hot", run, measure, "90 % of throughput after each fault, max", 3.0, part=1.0, seconds=120.0, quick=30.0,
    profile="hot", slots=24, stage=HotCluster, missed=missed,
)  # fmt: skip
HOT_3 = replace(HOT, name="hot-3", stage=HotCluster3)

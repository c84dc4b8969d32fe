"""SIGSTOP of a node past its lease, then SIGCONT: in turn of the node alone, and of everything below it too, as if its
whole machine had slept.

In the first case the keeper is awake and ends the node before others take its work. In the second nobody is: the old
attempt goes on when it wakes up, beside the new one, and only its fence keeps it from counting.
"""

from __future__ import annotations

import asyncio
import signal
import time

from tests.chaos.checker import Span
from tests.chaos.cluster import NODES, Cluster
from tests.chaos.evidence import Evidence, Exit
from tests.chaos.figures import restarts
from tests.chaos.scenario import Scenario

PAUSE = 14.0


async def run(cluster: Cluster, seconds: float) -> None:
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        name, whole = NODES[count % len(NODES)], count % 2 == 1
        await cluster.busy(name)
        pids = cluster.stop_all(name) if whole else cluster.stop(name)
        began = time.monotonic()  # only now all of them are still
        await asyncio.sleep(PAUSE)
        woken = time.monotonic()  # before the signals: the first of them wake up while the last are still to be sent
        cluster.signal(pids[::-1], signal.SIGCONT)
        cluster.fault("sleep" if whole else "pause", began, name, woken)
        count += 1
        await asyncio.sleep(5.0)
        await cluster.back(name)


def measure(evidence: Evidence) -> list[float]:
    return restarts(evidence, evidence.of("pause", "sleep"))


def excused(evidence: Evidence, old: Span, new: Span) -> bool:
    """Only what was taken over from a machine while it slept, and woke up with it."""
    return any(
        f.node == old.node and old.start < f.at < new.start and f.until <= old.last for f in evidence.of("sleep")
    )


def may_exit(evidence: Evidence, exit: Exit) -> bool:
    """The keeper ends a node that is past its lease with functions that it can't stop one by one."""
    faults = evidence.of("pause", "sleep")
    return exit.code == -signal.SIGKILL and any(f.node == exit.node and f.at < exit.at < f.until + 5 for f in faults)


SCENARIO = Scenario(
    "pause",
    run,
    measure,
    "its jobs start elsewhere, p99",
    12.0,
    seconds=36.0,
    quick=5.0,
    excused=excused,
    may_exit=may_exit,
)

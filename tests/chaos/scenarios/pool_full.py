"""Strangers take every connection that the server has, and every one that becomes free."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress

import psycopg

from tests.chaos.cluster import Cluster
from tests.chaos.evidence import Evidence
from tests.chaos.figures import back_to_normal, rate, starts, usual_rate
from tests.chaos.scenario import Scenario

CONNECTIONS = 340
AFTERWARDS = 8.0


class Strangers:
    """Connections that do nothing, from a thread that opens one more whenever there is room."""

    def __init__(self, url: str) -> None:
        self._url, self._open, self._over = url, list[psycopg.Connection[tuple[object, ...]]](), threading.Event()
        self.full = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._open.append(psycopg.connect(self._url, sslmode="disable", connect_timeout=5))
            except psycopg.OperationalError:
                self.full.set()
                self._over.wait(0.01)

    def leave(self) -> int:
        self._over.set()
        self._thread.join()
        for connection in self._open:
            with suppress(psycopg.Error):
                connection.close()
        return len(self._open)


async def run(cluster: Cluster, seconds: float) -> None:
    watcher = cluster.server.connect()  # while there is room
    began = time.monotonic()
    strangers = Strangers(cluster.server.url())
    try:
        await asyncio.to_thread(strangers.full.wait, 30)
        while time.monotonic() < began + seconds:
            await asyncio.sleep(2.0)
            # And now and then one is lost, which a stranger takes at once.
            watcher.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rota' "
                "ORDER BY random() LIMIT 1"
            )
    finally:
        count = await asyncio.to_thread(strangers.leave)
        watcher.close()
    cluster.fault("full", began, until=time.monotonic())
    cluster.evidence.notes.append(f"{count} strangers")
    await asyncio.sleep(AFTERWARDS)


def measure(evidence: Evidence) -> list[float]:
    times = starts(evidence)
    for fault in evidence.of("full"):
        before, during = usual_rate(times, fault.at), rate(times, fault.at, fault.until)
        evidence.notes.append(f"starts per second: {before:.1f} before, {during:.1f} while it lasted")
    return [back_to_normal(times, f.at, f.until, f.until + AFTERWARDS) for f in evidence.of("full")]


SCENARIO = Scenario(
    "pool-full", run, measure, "95 % of throughput afterwards, max", 3.0, part=1.0, seconds=20.0, profile="full",
    settings={"max_connections": CONNECTIONS},
)  # fmt: skip

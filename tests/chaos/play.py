"""Sets the stage for a scenario, plays it, and clears up."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos import report
from tests.chaos.cluster import Cluster
from tests.chaos.evidence import Evidence
from tests.chaos.scenario import Scenario
from tests.servers.postgres import Server, create_database

# A call that nobody thought could hang must not keep the whole run waiting.
LONGEST = 300.0


def play(scenario: Scenario, seconds: float, keep: bool) -> report.Report:
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"rota-chaos-{scenario.name}-"))
    try:
        with _servers(scenario, folder) as (server, standby):
            evidence = asyncio.run(_play(scenario, seconds, folder, server, standby))
        made = report.make(scenario, evidence, time.monotonic() - began)
        if made.faults:
            made.evidence.notes.append(f"everything is kept in {folder}")
        keep = keep or bool(made.faults)
        return made
    except BaseException:
        keep = True
        print(f"    everything is kept in {folder}", flush=True)
        raise
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _servers(scenario: Scenario, folder: Path) -> Iterator[tuple[Server, Server | None]]:
    folder.chmod(0o755)  # the server may run as another user
    server = Server.create(folder / "primary", durable=True, **scenario.settings)
    standby: Server | None = None
    try:
        server.start()
        if scenario.standby:
            standby = Server.standby(folder / "standby", server)
        yield server, standby
    finally:
        for each in (server, standby):
            if each and each.running:
                each.stop("immediate")


async def _play(scenario: Scenario, seconds: float, folder: Path, server: Server, standby: Server | None) -> Evidence:
    url = create_database(server)
    if standby:
        name = url.rpartition("/")[2]
        url = f"postgresql://postgres@127.0.0.1:{server.port},127.0.0.1:{standby.port}/{name}"
    cluster = Cluster(
        folder, url, server, standby, scenario.load(seconds), scenario.slots, scenario.skews, scenario.nodes
    )
    try:
        async with asyncio.timeout(seconds + LONGEST):
            await cluster.start()
            await scenario.run(cluster, seconds)
            return await cluster.settle()
    finally:
        await cluster.close()

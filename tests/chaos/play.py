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
from tests.chaos.evidence import Evidence
from tests.chaos.records import PostgresRecords, Records, SqliteRecords
from tests.chaos.scenario import POSTGRES, Scenario
from tests.servers.postgres import Server, create_database

# A call that nobody thought could hang must not keep the whole run waiting.
LONGEST = 300.0


def play(scenario: Scenario, seconds: float, keep: bool, store: str = POSTGRES) -> report.Report:
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"rota-chaos-{scenario.name}-"))
    try:
        with _records(scenario, folder, store) as records:
            evidence = asyncio.run(_play(scenario, seconds, folder, records))
        made = report.make(scenario, evidence, time.monotonic() - began, store)
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
def _records(scenario: Scenario, folder: Path, store: str) -> Iterator[Records]:
    if store == POSTGRES:
        with _servers(scenario, folder) as (server, standby):
            yield PostgresRecords(create_database(server).rpartition("/")[2], server, standby)
    else:
        yield SqliteRecords(folder / "rota.db")


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


async def _play(scenario: Scenario, seconds: float, folder: Path, records: Records) -> Evidence:
    cluster = scenario.stage(
        folder, records, scenario.load(seconds), scenario.app, scenario.slots, scenario.skews, scenario.nodes
    )
    try:
        async with asyncio.timeout(seconds + LONGEST):
            await cluster.start()
            await scenario.run(cluster, seconds)
            return await cluster.settle()
    finally:
        await cluster.close()

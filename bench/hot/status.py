"""Status of running jobs: how many reads a process answers, and what PostgreSQL is asked meanwhile."""

from __future__ import annotations

import asyncio
import http.client
import re
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import rota
from bench import processes
from bench.figure import Figure, Size
from bench.http import serving
from bench.postgres.server import Store, nodes, server, store
from tests.servers.postgres import Server
from tests.servers.valkey import Valkey, valkey

JOBS = 200  # that run and are looked at
CALLERS = 64
WARM_UP = 1.0  # seconds: then all jobs have been read once
READS, STATEMENTS = 5_000.0, 20.0
# The node's own statements are few; those of the process that is measured are counted with them.
LOGGED = {"log_statement": "all", "log_line_prefix": "%a|"}
STATEMENT = re.compile(r"^rota\|LOG:  (?:execute|statement)", re.MULTILINE)
ORDERS = msgspec.json.encode({"jobs": [{"task": "hold", "args": {}}] * JOBS})


class Meter:
    """What PostgreSQL is asked from `begin` on, by its log, in which each statement of rota is a line."""

    def __init__(self, postgres: Server) -> None:
        self._postgres = postgres
        self._logged, self._begun = 0, 0.0

    def begin(self) -> None:
        self._logged, self._begun = len(self._postgres.log()), time.perf_counter()

    def statements(self) -> float:
        """A second."""
        took = time.perf_counter() - self._begun
        return len(STATEMENT.findall(self._postgres.log()[self._logged :])) / took


def status(folder: Path, size: Size) -> Iterator[Figure]:
    """The same reads with the hot tier and without, in turns."""
    with server(folder, **LOGGED) as postgres, valkey() as hot:
        found: dict[tuple[str, bool], list[tuple[float, float]]] = {}
        for _ in range(size.runs):
            for with_it in (True, False):
                hot.call("FLUSHALL")
                meter = Meter(postgres)
                with _running(postgres, hot if with_it else None, folder) as running:
                    for name, run in (("by a client in one process", _client), ("over HTTP", _http)):
                        rate = run(running, meter, size.http)
                        found.setdefault((name, with_it), []).append((rate, meter.statements()))
    for (name, with_it), runs in found.items():
        title = f"{'with' if with_it else 'without'} the hot tier: status of {JOBS} running jobs {name}"
        rates, asked = [rate for rate, _ in runs], [count for _, count in runs]
        yield Figure(f"{title}, reads", statistics.median(rates), "/s", least=READS if with_it else None, runs=rates)
        goal = STATEMENTS if with_it else None
        yield Figure(f"{title}, statements of all", statistics.median(asked), "/s", most=goal, runs=asked)


class Running(NamedTuple):
    """A node that runs the jobs, and a process that only serves the API."""

    place: Store
    port: int
    jobs: list[str]
    settings: dict[str, Any]


@contextmanager
def _running(postgres: Server, hot: Valkey | None, folder: Path) -> Iterator[Running]:
    settings: dict[str, Any] = {"hot": hot.url()} if hot else {}
    port = serving.free_port()
    with store(postgres, folder) as place, nodes(place, slots=JOBS, grace="0s", roles="control,worker", **settings):
        log = folder / "api.log"
        api: dict[str, Any] = {"roles": "api", "api_port": port, **settings}
        with processes.up(place.url, log, lambda: serving.listens(port), None, **api):
            key = serving.new_key(place.url)
            _order(port, key)
            running = "SELECT count(*) FROM rota.jobs WHERE state = 'running' AND started_at IS NOT NULL"
            processes.until(lambda: place.value(running) == JOBS)
            rows = place.connection.execute("SELECT id::text FROM rota.jobs WHERE state = 'running'").fetchall()
            yield Running(place, port, [job for (job,) in rows], settings)


def _order(port: int, key: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection.request("POST", "/api/v1/jobs", ORDERS, headers)
    answer = connection.getresponse()
    if answer.status >= 300:
        raise RuntimeError(answer.read().decode())
    connection.close()


def _http(running: Running, meter: Meter, seconds: float) -> float:
    key = serving.new_key(running.place.url)
    sent = [serving.request("GET", f"/api/v1/jobs/{job}", key) for job in running.jobs]
    serving.call(running.port, len(sent), WARM_UP, *sent)
    meter.begin()
    return serving.call(running.port, CALLERS, seconds, *sent).rate


def _client(running: Running, meter: Meter, seconds: float) -> float:
    return asyncio.run(_glances(running, meter, seconds))


async def _glances(running: Running, meter: Meter, seconds: float) -> float:
    async with rota.App(store=running.place.url, **running.settings) as app:
        client, jobs = await app._core.client(), running.jobs
        until, counted = time.perf_counter() + WARM_UP, 0

        async def look(place: int) -> None:
            nonlocal counted
            while time.perf_counter() < until:
                place = (place + 7) % len(jobs)
                await client.glance(jobs[place])
                counted += 1

        await asyncio.gather(*map(look, range(JOBS)))
        meter.begin()
        until, counted, begun = time.perf_counter() + seconds, 0, time.perf_counter()
        await asyncio.gather(*map(look, range(CALLERS)))
        return counted / (time.perf_counter() - begun)


if __name__ == "__main__":
    import tempfile

    from bench.figure import QUICK

    with tempfile.TemporaryDirectory() as name:
        for figure in status(Path(name), msgspec.structs.replace(QUICK, http=4.0)):
            print(figure)

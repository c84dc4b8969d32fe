"""How many times as fast as Celery and Procrastinate: one worker each (Celery's has two processes), in turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.figure import Figure, Size, against_floor
from bench.peers import home
from bench.peers.valkey import valkey
from bench.postgres.server import server, store
from bench.postgres.throughput import SLOTS, drained
from bench.processes import program
from tests.servers.postgres import Server, database

CONCURRENCIES = (1, 20, 100)  # of Procrastinate: the best of them counts


class Rates(NamedTuple):
    """Jobs a second."""

    submit: float
    drain: float


def peers(folder: Path, size: Size) -> Iterator[Figure]:
    if not home.set_up():
        return
    ours: list[Rates] = []
    celery: list[Rates] = []
    procrastinate: list[Rates] = []
    with server(folder) as one:
        best = max(CONCURRENCIES, key=lambda number: _procrastinate(one, size.peers, number).drain)
        for run in range(size.runs):
            ours.append(_rota(one, folder, size.drained))
            celery.append(_celery(folder / f"celery-{run}", size.peers))
            procrastinate.append(_procrastinate(one, size.peers, best))
    yield from _figures("Celery, Valkey", ours, celery)
    yield from _figures(f"Procrastinate, concurrency {best}", ours, procrastinate)


def _figures(peer: str, ours: Sequence[Rates], theirs: Sequence[Rates]) -> Iterator[Figure]:
    name = f"PostgreSQL: against {peer}"
    yield against_floor(f"{name}: drain", [one.drain for one in ours], [one.drain for one in theirs], least=5.0)
    yield against_floor(f"{name}: submit", [one.submit for one in ours], [one.submit for one in theirs], least=None)


def _rota(one: Server, folder: Path, jobs: int) -> Rates:
    with store(one, folder) as place:
        submitted = jobs / place.seconds_of("bench.load", "submit", jobs)
    with store(one, folder) as place:
        return Rates(submitted, drained(place, jobs, SLOTS))


def _procrastinate(one: Server, jobs: int, concurrency: int) -> Rates:
    with database(one) as url:
        submitted = jobs / home.answer("with_procrastinate", "submit", jobs, address=url)
        return Rates(submitted, home.answer("with_procrastinate", "drain", jobs, concurrency, address=url))


def _celery(folder: Path, jobs: int) -> Rates:
    folder.mkdir()
    with valkey(folder) as address:
        submitted = jobs / home.answer("with_celery", "submit", jobs, address=address)
        app = "bench.peers.with_celery"
        options = ["--pool", "prefork", "--without-gossip", "--without-mingle", "--without-heartbeat"]
        worker = [str(home.PYTHON), "-m", "celery", "-A", app, "worker", "--loglevel", "WARNING", *options]
        with program(worker, home.environment(address), folder / "worker.log"):
            return Rates(submitted, home.answer("with_celery", "rate", jobs + 1, address=address))  # with its first

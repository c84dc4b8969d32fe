"""What idle nodes cost: the server in statements, their machine in time and memory."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

from bench import processes
from bench.figure import Figure, Size
from bench.postgres.server import nodes, server, store
from tests.servers.postgres import Server

# One line for each statement that the server carries out, with the name of the program that sent it. Exact, unlike the
# counters of transactions: those come late and know nothing of statements within one.
LOGGED = {"log_statement": "all", "log_line_prefix": "%a|"}
STATEMENT = re.compile(r"^rota\|LOG:  (?:execute|statement)", re.MULTILINE)


def idle(folder: Path, size: Size) -> Iterator[Figure]:
    with server(folder, **LOGGED) as one:
        for count in (1, 3):
            yield from _idle(one, folder, size, count)


def _idle(one: Server, folder: Path, size: Size, count: int) -> Iterator[Figure]:
    with store(one, folder) as place, nodes(place, count) as pids:
        time.sleep(size.settling)
        families = [processes.family(pid) for pid in pids]
        everyone = [pid for family in families for pid in family]
        before, logged, begun = processes.cpu_seconds(everyone), len(one.log()), time.perf_counter()
        time.sleep(size.watched)
        took = time.perf_counter() - begun
        share = (processes.cpu_seconds(everyone) - before) / took / count
        statements = len(STATEMENT.findall(one.log()[logged:]))
        memory = sum(processes.pss_bytes(pid) for pid in everyone) / 1e6 / count
    name = "PostgreSQL: idle rota up" if count == 1 else f"PostgreSQL: idle, each of {count} nodes"
    counted = f"{statements} in {took:.0f} s"
    yield Figure(f"{name}, statements", statements / took / count, "/s", most=2.0, ours=counted)
    yield Figure(f"{name}, part of a core", share * 100, "%", most=1.0)
    yield Figure(f"{name}, PSS", memory, "MB", most=80.0)

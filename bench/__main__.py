"""Takes the measurements and shows them. A missed goal is shown too, but is no error: this is not a test."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apsw
import msgspec

from bench import claims, commands, functions, output, quiet, schedules, statistics, throughput
from bench.figure import QUICK, Figure, Measure, Size
from bench.hot import heap as hot_heap
from bench.hot import statements as hot_statements
from bench.hot import status as hot_status
from bench.hot import throughput as hot_throughput
from bench.hot import timing as hot_timing
from bench.http import measures as over_http
from bench.http import streams
from bench.postgres import against_peers, foreign, horizon, order, sharing, timing, tuning
from bench.postgres import functions as pg_functions
from bench.postgres import quiet as pg_quiet
from bench.postgres import schedules as pg_schedules
from bench.postgres import statistics as pg_statistics
from bench.postgres import throughput as pg_throughput
from bench.search import beside_ingest, ingest_rates, job_lists, rivals

ON_SQLITE: dict[str, Measure] = {
    "submit": throughput.submit_many,
    "drain": throughput.drain,
    "drain-default": throughput.drain_by_default,
    "functions": functions.sync_noops,
    "idle-pool": functions.idle,
    "claim": claims.claim,
    "claim-foreign": claims.foreign,
    "idle": quiet.idle,
    "latency": quiet.latency,
    "schedules": schedules.schedules,
    "output": output.flood,
    "commands": commands.commands,
    "starts": commands.starts,
    "stats": statistics.reading,
}
ON_ORDER: dict[str, Measure] = {
    "pg-behind": order.behind,
    "pg-foreign": foreign.foreign,
    "pg-graphs": order.graphs,
    "pg-keys": order.keys,
    "pg-rates": sharing.rates,
    "pg-flows": sharing.flows,
    "pg-fairness": sharing.fairness,
}
ON_POSTGRES: dict[str, Measure] = {
    "pg-submit": pg_throughput.submit_many,
    "pg-drain": pg_throughput.drain,
    "pg-functions": pg_functions.sync_noops,
    "pg-peers": against_peers.peers,
    "pg-latency": timing.latency,
    "pg-tuning": tuning.tuning,
    "pg-full": pg_throughput.full,
    "pg-timers": timing.timers,
    "pg-idle": pg_quiet.idle,
    "pg-horizon": horizon.horizon,
    "pg-schedules": pg_schedules.schedules,
    "pg-stats": pg_statistics.reading,
    **ON_ORDER,
}
WITH_HOT_TIER: dict[str, Measure] = {
    "hot-timers": hot_timing.timers,
    "hot-latency": hot_timing.latency,
    "hot-drain": hot_throughput.drain,
    "hot-statements": hot_statements.statements,
    "hot-status": hot_status.status,
    "hot-heap": hot_heap.heap,
    "hot-refill": hot_heap.refill,
    "hot-fault": hot_throughput.fault,
}
OVER_HTTP: dict[str, Measure] = {
    "http-submit": over_http.submit,
    "http-batch": over_http.batch,
    "http-get": over_http.get,
    "http-busy": over_http.busy,
    "http-idle": over_http.idle,
    "http-worker": over_http.worker,
    "http-streams": streams.streams,
}
IN_SEARCH: dict[str, Measure] = {
    "search-grep": rivals.grep,
    "search-fts5": rivals.fts,
    "search-tsvector": rivals.tsvector,
    "search-ingest": ingest_rates.sqlite,
    "pg-search-ingest": ingest_rates.on_postgres,
    "search-jobs": job_lists.sqlite,
    "pg-search-jobs": job_lists.on_postgres,
    "search-drain": beside_ingest.sqlite,
    "pg-search-drain": beside_ingest.on_postgres,
}
MEASURES = ON_SQLITE | ON_POSTGRES | WITH_HOT_TIER | OVER_HTTP | IN_SEARCH
GROUPS = {
    "sqlite": list(ON_SQLITE),
    "pg": list(ON_POSTGRES),
    "pg-order": list(ON_ORDER),
    "hot": list(WITH_HOT_TIER),
    "http": list(OVER_HTTP),
    "search": list(IN_SEARCH),
}
# What is searched takes half an hour to make, and several times its size on the disk: only if it is named.
EVERYTHING = ("sqlite", "pg", "hot", "http")
# How long a transaction stays open with --long.
LONG = 300.0


def main() -> None:
    given = _arguments()
    size = QUICK if given.quick else Size()
    if given.runs:
        size = msgspec.structs.replace(size, runs=given.runs)
    if given.keyed:
        size = msgspec.structs.replace(size, keyed=given.keyed)
    if given.lines:
        size = msgspec.structs.replace(size, lines=given.lines)
    if given.jobs:
        size = msgspec.structs.replace(size, listed=given.jobs)
    if given.long:
        size = msgspec.structs.replace(size, held=LONG)
    names = [name for one in given.only or EVERYTHING for name in GROUPS.get(one, [one])]
    figures: list[Figure] = []
    if not given.json:
        print(_machine())
    for figure in _measure(names, size, given.dir):
        figures.append(figure)
        if not given.json:
            print(_line(figure), flush=True)
    if given.json:
        shown = [{**msgspec.to_builtins(figure), "met": figure.met} for figure in figures]
        print(msgspec.json.encode({"machine": _machine(), "figures": shown}).decode())
    missed = [figure.name for figure in figures if figure.met is False]
    text = "\n".join(f"GOAL MISSED: {name}" for name in missed) or "all goals are met"
    print(text, file=sys.stderr if given.json else sys.stdout)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    names = [*GROUPS, *MEASURES]
    parser.add_argument("only", nargs="*", choices=[[], *names], help="what to measure; everything unless named")
    parser.add_argument("--quick", action="store_true", help="small and once: shows that it works, not how fast")
    parser.add_argument("--runs", type=int, help="how often rota and the floor take turns (5)")
    parser.add_argument("--long", action="store_true", help=f"pg-horizon: hold the transaction for {LONG:g} s")
    parser.add_argument("--keyed", type=int, help="pg-keys: so many jobs with keys (50,000)")
    parser.add_argument("--lines", type=int, help="search: so many lines (10,000,000)")
    parser.add_argument("--jobs", type=int, help="search: lists of so many ended jobs (10,000,000)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--dir", type=Path, help="where the stores are made: their disk is measured too (a temporary folder)"
    )
    return parser.parse_args()


def _measure(names: list[str], size: Size, parent: Path | None) -> Iterator[Figure]:
    for name in names:
        folder = Path(tempfile.mkdtemp(prefix="rota-bench-", dir=parent))
        try:
            yield from MEASURES[name](folder, size)
        finally:
            shutil.rmtree(folder)


def _machine() -> str:
    busy = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores, load {busy:.1f}, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}"
    )


def _line(figure: Figure) -> str:
    verdict = {True: "ok", False: "MISSED", None: ""}[figure.met]
    made_of = " against ".join(part for part in (figure.ours, figure.other) if part)
    value = f"{figure.value:.2f} {figure.unit}"
    return f"{figure.name:72} {value:>10}  {figure.goal:10} {verdict:6}  {made_of}".rstrip()


if __name__ == "__main__":
    main()

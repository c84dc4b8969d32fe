"""Figures of the HTTP API. Ours and the floor take turns, and each run is compared with the one beside it."""

from __future__ import annotations

import http.client
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench import processes, throughput
from bench.figure import Figure, Size, against_floor
from bench.http import serving
from bench.http.callers import Answers
from bench.payload import TEXT
from rota.clients.jobs import LARGEST_ORDER
from rota.work.worker import LARGEST_CLAIM

CALLERS = (1, 8, 64, 256)
COMPARED = 64  # callers, of those
SETTLING = 2.0
ORDER = msgspec.json.encode({"task": "noop", "args": {"text": TEXT}, "queue": "unserved"})
BATCH = msgspec.json.encode({"jobs": [{"task": "noop", "args": {"text": TEXT}, "queue": "unserved"}] * LARGEST_ORDER})


def submit(folder: Path, size: Size) -> Iterator[Figure]:
    """Orders go to a queue that no node serves: their runs would take the same core."""
    store, body = folder / "submit.db", ORDER
    with serving.api(store) as (_, port), serving.bare(folder / "bare.log") as floor_port:
        ours = serving.request("POST", "/api/v1/jobs", serving.new_key(store), body)
        floor = serving.request("POST", "/jobs", body=body)
        yield from _compared("submit over HTTP", size, (port, [ours]), (floor_port, [floor]), least=0.4, rate=2_500.0)


def get(folder: Path, size: Size) -> Iterator[Figure]:
    store = folder / "get.db"
    with serving.api(store) as (_, port), serving.bare(folder / "bare.log") as floor_port:
        key = serving.new_key(store)
        ours = [serving.request("GET", f"/api/v1/jobs/{job}", key) for job in _orders(port, key, max(CALLERS))]
        floor = serving.request("GET", "/jobs/7")
        yield from _compared("GET of a job", size, (port, ours), (floor_port, [floor]), least=0.5)


def _compared(
    name: str,
    size: Size,
    ours: tuple[int, list[bytes]],
    floor: tuple[int, list[bytes]],
    least: float,
    rate: float | None = None,
) -> Iterator[Figure]:
    for callers in CALLERS:
        pairs = [
            [serving.call(port, callers, size.http, *sent) for port, sent in (ours, floor)] for _ in range(size.runs)
        ]
        mine, others = ([one.rate for one in side] for side in zip(*pairs, strict=True))
        goal = least if callers == COMPARED else None
        yield against_floor(f"{name}, {callers} callers, against a bare endpoint", mine, others, goal)
        if callers == COMPARED and rate is not None:
            yield Figure(f"{name}, {callers} callers", statistics.median(mine), "/s", least=rate)
        p99 = [pair[0].p99 for pair in pairs]
        yield Figure(f"{name}, {callers} callers: p99", statistics.median(p99), "ms", runs=p99)


def batch(folder: Path, size: Size) -> Iterator[Figure]:
    ours: list[float] = []
    floor: list[float] = []
    for run in range(size.runs):
        store = folder / f"batch-{run}.db"
        with serving.api(store) as (_, port):
            ours.append(_batches(port, serving.new_key(store), size.jobs // LARGEST_ORDER))
        local = processes.seconds_of("bench.load", "submit", size.jobs, store=folder / f"local-{run}.db")
        floor.append(size.jobs / local)
    yield against_floor("batches of 1,000 over HTTP, against submit_many on the store", ours, floor, least=0.5)


def _batches(port: int, key: str, count: int) -> float:
    """Jobs a second; two at a time, as submit_many has two on their way."""
    sent = serving.request("POST", "/api/v1/jobs", key, BATCH)
    command = [sys.executable, "-m", "bench.http.callers", str(port), "2", str(max(count * 0.1, 2.0))]
    done = subprocess.run(command, cwd=processes.ROOT, check=True, input=sent, stdout=subprocess.PIPE)
    answers = msgspec.json.decode(done.stdout, type=Answers)
    if answers.refused:
        raise RuntimeError(answers.refused)
    return answers.rate * LARGEST_ORDER


def busy(folder: Path, size: Size) -> Iterator[Figure]:
    """Four callers that never pause take a core by themselves, so one asks: it sees what the node does to it."""
    for slots in (None, 2 * LARGEST_CLAIM):
        p99: list[float] = []
        drained: list[float] = []
        for run in range(size.runs):
            store = folder / f"busy-{slots}-{run}.db"
            with serving.api(store, slots) as (_, port):
                key = serving.new_key(store)
                asked = serving.request("GET", f"/api/v1/jobs/{_order(port, key)}", key)
                processes.seconds_of("bench.load", "submit", size.jobs, store=store)
                before = _left(store)
                p99.append(serving.call(port, 1, size.http, asked).p99)
                drained.append(float(before - _left(store)))
        named = "default slots" if slots is None else f"{slots} slots"
        yield Figure(
            f"GET of a job while the process drains, {named}: p99", statistics.median(p99), "ms", most=20.0, runs=p99,
            ours=f"{statistics.median(drained):,.0f} jobs meanwhile",
        )  # fmt: skip


def _left(store: Path) -> int:
    return processes.ask(store, "SELECT count(*) FROM jobs WHERE state = 'ready' AND queue = 'default'")


def idle(folder: Path, size: Size) -> Iterator[Figure]:
    """Without an app there are no processes for functions. They are the same with the API and without."""
    for app, most in (("", 60.0), (processes.APP, None)):
        with serving.api(folder / f"idle-{bool(app)}.db", app=app) as (pid, _):
            time.sleep(SETTLING)
            family = processes.family(pid)
            before, begun = processes.cpu_seconds(family), time.perf_counter()
            time.sleep(size.idle)
            share = (processes.cpu_seconds(family) - before) / (time.perf_counter() - begun)
            memory = [processes.pss_bytes(one) / 1e6 for one in family]
        named = "with functions" if app else "without an app"
        yield Figure(f"idle API node {named}, part of a core over {size.idle:g} s", share * 100, "%", most=0.7)
        parts = f"node {memory[0]:.1f}, others {sum(memory[1:]):.1f}"
        yield Figure(f"idle API node {named}, PSS of its processes", sum(memory), "MB", most=most, ours=parts)


def worker(folder: Path, size: Size) -> Iterator[Figure]:
    """A node that serves and decides, and a worker that has nothing but a key; against a worker on the store."""
    ours: list[float] = []
    floor: list[float] = []
    for run in range(size.runs):
        far, near = folder / f"far-{run}.db", folder / f"near-{run}.db"
        with serving.api(far, roles="control,api") as (_, port):
            key = serving.new_key(far, role="worker")
            ours.append(_drained(far, "", size.jobs, server=f"http://127.0.0.1:{port}", key=key))
        with processes.node(near, roles="control"):
            floor.append(_drained(near, near, size.jobs))
    yield against_floor(f"drain of {size.jobs:,} async no-ops by a worker over HTTP", ours, floor, least=0.5)


def _drained(store: Path, known: Path | str, jobs: int, **settings: str) -> float:
    """Jobs a second of a node with the role worker only. `known`: the store as far as the worker knows it."""
    processes.seconds_of("bench.load", "submit", jobs, store=store)
    log = store.with_suffix(".worker.log")
    given: dict[str, object] = {"roles": "worker", **settings}
    with processes.up(known, log, lambda: True, 2 * LARGEST_CLAIM, processes.APP, **given):
        processes.until(lambda: not throughput.waiting(store))
    return throughput.rate(store, jobs)


def _order(port: int, key: str) -> str:
    (job,) = _orders(port, key, 1)
    return job


def _orders(port: int, key: str, count: int) -> list[str]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request("POST", "/api/v1/jobs", b'{"jobs":[%s]}' % b",".join([ORDER] * count), headers)
        answer = connection.getresponse()
        found = msgspec.json.decode(answer.read())
        if answer.status >= 300:
            raise RuntimeError(f"refused: {found}")
        return [str(job["id"]) for job in found["jobs"]]
    finally:
        connection.close()

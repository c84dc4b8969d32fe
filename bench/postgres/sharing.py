"""How fair the sharing is, and what it costs: rates over several nodes, many flows, one user against another."""

from __future__ import annotations

import asyncio
import statistics
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench import processes
from bench.figure import Figure, Size
from bench.payload import ARGUMENTS
from bench.postgres.ordering import GUEST, RATE
from bench.postgres.server import Store, nodes, server, store
from rota.clock import Chance, SystemClock
from rota.model.feedback import Feedback, flow_name
from rota.model.job import Kind, Spec
from rota.model.limits import rate as read_rate
from rota.model.node import NewNode
from rota.model.outcome import Succeeded, settle
from rota.model.principal import SYSTEM
from rota.model.retry import Retry
from rota.model.task import TaskInfo
from rota.model.times import DAY, SECOND
from rota.store.postgres import PostgresStore
from tests.servers.postgres import Server

ORDERING = "bench.postgres.ordering"
NODES = 4


# -- rates ------------------------------------------------------------------------------------------------------------
def rates(folder: Path, size: Size) -> Iterator[Figure]:
    """By what the jobs themselves noted when they started."""
    allowed, window = read_rate(RATE).count, read_rate(RATE).window / SECOND
    witness = folder / "starts"
    with server(folder) as one, store(one, folder) as place:
        backlog = round(allowed * (size.rated / window + 4))
        place.seconds_of(ORDERING, "told", backlog, witness)
        with nodes(place, NODES):
            processes.until(witness.exists)
            time.sleep(size.rated)
            starts = sorted(map(float, witness.read_text().splitlines()))
            # The backlog stays behind: what is left of it must not keep the nodes from ending.
            place.run("DELETE FROM rota.jobs WHERE node IS NULL")
    length = starts[-1] - starts[0]
    name = f"PostgreSQL: rate {RATE}, {NODES} nodes, {size.rated:g} s"
    parts = f"{len(starts)} starts in {length:.1f} s"
    yield Figure(f"{name}: most in any {window:g} s", crowded(starts, window), "starts", most=allowed, ours=parts)
    yield Figure(f"{name}: used", 100 * used(starts, allowed, window), "%", least=90.0)


def crowded(starts: Sequence[float], window: float) -> int:
    """The most starts in any window of that length."""
    return max(bisect_left(starts, at + window) - place for place, at in enumerate(starts))


def used(starts: Sequence[float], allowed: int, window: float) -> float:
    """Part of the rate: the first windowful comes at once and is no merit, so the clock starts with it and it doesn't
    count."""
    return (len(starts) - allowed) / ((starts[-1] - starts[0]) * allowed / window)


# -- flows ------------------------------------------------------------------------------------------------------------
def flows(folder: Path, size: Size) -> Iterator[Figure]:
    """Claims from as many ready jobs, of few users and tasks or of many; with feedback each of them has used slots."""
    sides = sorted({1, 10, round(size.flows**0.5)})  # users, and tasks of each
    shown = " / ".join(f"{side**2:,}" for side in sides)
    with ExitStack() as stack:
        one = stack.enter_context(server(folder))
        places = [stack.enter_context(store(one, folder)) for _ in sides]
        for feedback, batch in ((False, 100), (False, 1), (True, 100), (True, 1)):
            for place, side in zip(places, sides, strict=True):
                _fill(place, size.flows + batch * size.claims, side)
            claimers = [_Claimer(place.url, side, feedback) for place, side in zip(places, sides, strict=True)]
            took = asyncio.run(_take_turns(claimers, sides[-1], batch, size.claims))
            texts = [f"{side**2:,}: {ms:.2f} ms" for side, ms in zip(sides, took, strict=True)]
            name = f"PostgreSQL: claim of {batch}, {shown} flows, feedback {'on' if feedback else 'off'}: slowest"
            yield Figure(name, max(took) / min(took), "x", most=1.5, ours=", ".join(texts))


def _fill(place: Store, jobs: int, side: int) -> None:
    """So many ready jobs, in turn of `side` users with `side` tasks each."""
    spec, retry, now = Spec.function("noop"), msgspec.json.encode(Retry()).decode(), place.now()
    place.run("DELETE FROM rota.jobs")
    place.run(
        """
        INSERT INTO rota.jobs (id, owner, state, queue, kind, task, priority, rank, run_at, created_at,
                               spec, digest, args, retry)
        SELECT rota.new_id(at), 'user-' || n %% %s, 'ready', 'default', 'function', 'task-' || n / %s %% %s, 5,
               at, at, at, %s, %s, %s, %s
        FROM (SELECT n, %s + n AS at FROM generate_series(1, %s::bigint) n) one""",
        side, side, side, spec.body, spec.digest, ARGUMENTS, retry, now, jobs,
    )  # fmt: skip
    place.run("VACUUM (ANALYZE) rota.jobs")
    place.run("CHECKPOINT")


async def _take_turns(claimers: Sequence[_Claimer], tasks: int, batch: int, claims: int) -> list[float]:
    """The median time of a claim of each, in milliseconds."""
    for claimer in claimers:
        await claimer.join([_task(number) for number in range(tasks)])
    took = [[await claimer.claim(batch) for claimer in claimers] for _ in range(claims)]
    for claimer in claimers:
        await claimer.leave()
    return [statistics.median(times) * 1000 for times in zip(*took, strict=True)]


def _task(number: int) -> TaskInfo:
    return TaskInfo(f"task-{number}")


class _Claimer:
    """A node without the node, so that nothing but the claim is timed."""

    def __init__(self, url: str, side: int, feedback: bool) -> None:
        self._side, self._feedback = side, feedback
        self._chance = Chance()
        self._store = PostgresStore(url, SystemClock(), self._chance)
        self._incarnation = self._chance.token()

    async def join(self, tasks: Sequence[TaskInfo]) -> None:
        await self._store.open()
        node = NewNode(self._incarnation, self._incarnation, ("worker",), {"default": 500}, "bench", 600 * SECOND)
        await self._store.register(SYSTEM, node, tasks)
        await self._store.set_feedback(SYSTEM, "default", Feedback(boost=DAY) if self._feedback else None)
        flows = [flow_name(f"user-{n}", f"task-{m}") for n in range(self._side) for m in range(self._side)]
        await self._store.charge(SYSTEM, {("default", flow): SECOND for flow in flows})

    async def claim(self, batch: int) -> float:
        """Seconds for a claim that finds its whole batch; it is ended afterwards."""
        wanted = {"default": batch}
        begun = time.perf_counter()
        claimed = await self._store.claim(SYSTEM, self._incarnation, wanted, list(Kind), wanted)
        took = time.perf_counter() - begun
        if len(claimed) != batch:
            raise RuntimeError(f"{len(claimed)} jobs were claimed instead of {batch}")
        ends = [settle(one.job_id, one.fence, Retry(), one.failures, Succeeded(), 0.5) for one in claimed]
        await self._store.finish(SYSTEM, ends)
        return took

    async def leave(self) -> None:
        await self._store.leave(SYSTEM, self._incarnation)
        await self._store.close()


# -- one user against another -----------------------------------------------------------------------------------------
def fairness(folder: Path, size: Size) -> Iterator[Figure]:
    with server(folder) as one:
        for feedback, most in (("off", None), ("on", 2.0)):
            waits = _waits(one, folder, size, feedback)
            name = f"PostgreSQL: {size.guests} short jobs beside {size.flood:,} of 200 ms, feedback {feedback}: p99"
            middle = f"p50 {statistics.median(waits):.2f} s"
            yield Figure(name, waits[len(waits) * 99 // 100], "s", most=most, ours=middle)


def _waits(one: Server, folder: Path, size: Size, feedback: str) -> list[float]:
    """Seconds from order to start of the guest's jobs, with the default number of slots."""
    with store(one, folder) as place:
        place.seconds_of(ORDERING, "feedback", feedback)
        place.seconds_of(ORDERING, "flood", size.flood, 0.2)
        with nodes(place):
            time.sleep(size.flooded)
            place.seconds_of(ORDERING, "guests", size.guests)
            living = "SELECT EXISTS (SELECT FROM rota.jobs WHERE owner = %s)"
            processes.until(lambda: not place.value(living, GUEST), processes.PATIENCE + size.flood / 50)
            place.run("DELETE FROM rota.jobs WHERE node IS NULL")  # the rest of the flood has served its purpose
        rows = place.connection.execute("SELECT started_at - created_at FROM rota.history WHERE owner = %s", (GUEST,))
        return sorted(int(wait) / SECOND for (wait,) in rows)

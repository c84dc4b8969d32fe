"""Several processes on one file: claims, wake-ups, deaths and migrations across them."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

from rota.clock import Chance, SystemClock
from rota.errors import InvalidInput
from rota.model.job import Verdict
from rota.model.lifecycle import State
from rota.model.outcome import CrashRule
from rota.model.principal import LOCAL, SYSTEM
from rota.store.sqlite import SqliteStore
from rota.store.sqlite.migrate import known_version
from rota.store.values import JobFilter, Topic
from tests.contracts.world import World
from tests.store.sqlite.children import LIMIT, child


async def opened(path: Path) -> SqliteStore:
    store = SqliteStore(str(path), SystemClock(), Chance())
    await store.migrate()
    return store


def pipes(path: str) -> list[Path]:
    return list(Path(f"{path}-rota").glob("*.wake"))


class Alarm:
    def __init__(self, store: SqliteStore, *topics: Topic) -> None:
        self._rung = asyncio.Event()
        self.end = store.listen(frozenset(topics), self._rung.set)

    async def next(self) -> None:
        async with asyncio.timeout(LIMIT):
            await self._rung.wait()
        self._rung.clear()


async def test_claimers_in_several_processes_take_every_job_exactly_once(world: World, path: str) -> None:
    jobs = await world.several(1_000) + await world.several(1_000)
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(child("drain", path, f"w{n}", str(7 + n))) for n in range(4)]
        for worker in workers:
            assert await worker.hear() == "ready"
        for worker in workers:
            worker.tell()
        said = [await worker.rest() for worker in workers]
    shares = [[row for batch in batches for row in batch] for batches in said]
    rows = [row for share in shares for row in share]
    assert Counter(job for job, _, _ in rows) == Counter(jobs)
    assert {(fence, verdict) for _, fence, verdict in rows} == {(1, Verdict.APPLIED)}
    assert await world.store.counts(SYSTEM) == {State.SUCCEEDED: 2_000}
    infos = await world.store.find(SYSTEM, JobFilter(limit=5_000))
    assert {len(info.attempts) for info in infos} == {1}
    by_node = Counter(info.attempts[0].node for info in infos)
    assert [by_node[f"w{n}"] for n in range(4)] == [len(share) for share in shares]


async def test_what_was_acknowledged_survives_the_process(world: World, path: str) -> None:
    async with child("submit_and_die", path, "5") as doomed:
        acknowledged = [job for batch in await doomed.rest() for job in batch]
        assert await doomed.process.wait() == -signal.SIGKILL
    assert len(acknowledged) == 15
    assert set(await world.all()) == set(acknowledged)


# -- deaths -----------------------------------------------------------------------------------------------------------


async def test_a_killed_process_is_gone_and_its_work_is_taken_over_at_once(world: World, path: str) -> None:
    jobs = await world.several(3)
    async with child("hold", path, "doomed", "2") as holder:
        incarnation, held = await holder.hear()
        (seen,) = await world.store.nodes(SYSTEM)
        assert (seen.incarnation, seen.gone, seen.running) == (incarnation, False, 2)
        assert await world.store.take_over(SYSTEM, incarnation, None, CrashRule()) is None, "it lives"
        await holder.kill()
    (seen,) = await world.store.nodes(SYSTEM)
    assert seen.gone
    assert await world.store.take_over(SYSTEM, incarnation, None, CrashRule()) == held == jobs[:2]
    assert await world.states(*jobs) == [State.READY] * 3
    assert not list(Path(f"{path}-rota").glob("*.lock")), "its lock file is not left behind"
    assert await world.store.take_over(SYSTEM, incarnation, None, CrashRule()) is None


async def test_a_paused_process_is_silent_but_not_gone(world: World, path: str) -> None:
    async with child("hold", path, "paused", "1") as holder:
        incarnation, _ = await holder.hear()
        holder.process.send_signal(signal.SIGSTOP)
        try:
            assert not (await world.store.nodes(SYSTEM))[0].gone
            assert await world.store.take_over(SYSTEM, incarnation, None, CrashRule()) is None
        finally:
            holder.process.send_signal(signal.SIGCONT)


async def test_a_process_is_not_gone_while_a_child_of_it_holds_its_guard(
    world: World, path: str, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = os.open(fifo, os.O_RDWR)
    async with child("bequeath", path, "parent", str(fifo)) as parent:
        incarnation = await parent.hear()
        async with asyncio.timeout(LIMIT):
            assert await parent.process.wait() == -signal.SIGKILL
    lock = os.open(f"{path}-rota/{incarnation}.lock", os.O_RDWR)
    try:
        assert not (await world.store.nodes(SYSTEM))[0].gone, "something that it started is left"
        assert await world.store.take_over(SYSTEM, incarnation, None, CrashRule()) is None
    finally:
        os.close(writer)
    await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)  # until the last of them has ended
    os.close(lock)
    assert (await world.store.nodes(SYSTEM))[0].gone
    assert await world.store.take_over(SYSTEM, incarnation, None, CrashRule()) == []


async def test_the_id_of_a_killed_process_can_be_used_again_at_once(world: World, path: str) -> None:
    async with child("hold", path, "box", "0") as holder:
        await holder.hear()
        try:
            await world.node("box")
        except InvalidInput:
            pass
        else:
            raise AssertionError("it lives")
        await holder.kill()
    await world.node("box")


# -- wake-ups ---------------------------------------------------------------------------------------------------------


async def test_a_wake_up_comes_from_another_process(world: World, path: str) -> None:
    alarm = Alarm(world.store, Topic.READY)  # type: ignore[arg-type]
    async with child("submit", path, "1") as submitter:
        (job_id,) = await submitter.hear()
        await alarm.next()
        assert await submitter.end() == 0
    assert await world.state(job_id) is State.READY
    alarm.end()


async def test_a_wake_up_goes_to_another_process(world: World, path: str) -> None:
    async with child("listen", path, Topic.READY, Topic.NEWS) as listener:
        assert await listener.hear() == "listening"
        job_id = await world.one()
        assert await listener.hear() == "rung"
        await world.store.cancel(LOCAL, [job_id], "enough")
        assert await listener.hear() == "rung"
        assert await listener.end() == 0
    assert not pipes(path), "an orderly end leaves nothing behind"


async def test_a_file_in_a_very_deep_folder(tmp_path: Path) -> None:
    """The path of a Unix socket may have 107 bytes; those of files may have more."""
    folder = tmp_path / ("d" * 100) / ("e" * 100)
    folder.mkdir(parents=True)
    path = folder / "rota.db"
    assert len(os.fsencode(path)) > 200
    store = await opened(path)
    alarm = Alarm(store, Topic.READY)
    async with child("submit", str(path), "1") as submitter:
        (job_id,) = await submitter.hear()
        await alarm.next()
    info = await store.get(LOCAL, job_id)
    assert info is not None
    async with child("hold", str(path), "deep", "1") as holder:
        incarnation, held = await holder.hear()
        assert held == [job_id]
        await holder.kill()
    assert await store.take_over(SYSTEM, incarnation, None, CrashRule()) == [job_id]
    alarm.end()
    await store.close()


async def test_pipes_that_a_killed_process_left_behind_are_removed(world: World, path: str) -> None:
    async with child("listen", path, Topic.READY) as listener:
        assert await listener.hear() == "listening"
        assert len(pipes(path)) == 1
        await listener.kill()
    assert len(pipes(path)) == 1
    await world.one()
    assert not pipes(path)


# -- migrations -------------------------------------------------------------------------------------------------------


async def test_several_processes_migrate_a_new_file_at_once(path: str) -> None:
    async with AsyncExitStack() as stack:
        migrators = [await stack.enter_async_context(child("migrate", path)) for _ in range(4)]
        for one in migrators:
            assert await one.hear() == "ready"
        for one in migrators:
            one.tell()
        answers = [await one.hear() for one in migrators]
        codes = [await one.end() for one in migrators]
    assert codes == [0] * 4
    assert all(answer is not None and answer[0] <= answer[1] == known_version() for answer in answers), answers

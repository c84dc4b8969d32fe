"""Seals the output of ended attempts, and removes output whose time is over. Only the leader does it.

It walks through the unsealed chunks in the order in which they were kept and gathers those of one owner and task. What
makes a whole segment is sealed at once. Smaller rests wait for more, for some minutes; so segments are compressed well
at low rates too. After each walk it looks for the rest of its work: segments with output of purged jobs, small segments
to join, output that is too old or too much.

The walk keeps nothing but its place, so it may begin anew at any time, on any node.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from rota.clock import Chance
from rota.config import Settings
from rota.errors import StoreError
from rota.lines.segment import BadSegment, Packed, unpack
from rota.model.principal import SYSTEM
from rota.model.times import MINUTE, SECOND, Duration, Instant
from rota.store.base import Store
from rota.store.log_store import ChunkCursor, LogRetention, NewSegment, Run, RunsRead, Sealing, Stored
from rota.store.values import CUT, Chunk, Position

Pack = Callable[[Sequence[Chunk]], Awaitable[Packed]]

# Chunks of one page of the walk.
PAGE = 20_000
# Of small jobs so many share a segment at most.
MOST_RUNS = 4_096
# Pauses, in seconds: between pages, after a walk, before a new leader begins.
BREATH, REST, SOON = 0.02, 5.0, 5.0
SLICE = 2.0  # seconds of sealing in one tick
# Pieces that wait to be packed: to write one and to read another takes longer than to pack one.
WAITING = 2
# While the machine has no time to spare, sealing takes one part in so many, unless output has waited for too long.
GIVES_WAY, WAITS = 8, 10 * MINUTE
# A write of the store pauses others: one that deletes rows takes at most so many.
PRUNED = 50
PURGED = 100
GROUPS = 4
# Joining fewer is not worth its writes.
LEAST_JOINED = 4


class Rules(msgspec.Struct, frozen=True):
    target: int = 512 << 10  # bytes of output in a segment
    settled: Duration = 5 * SECOND  # younger chunks are left to those who follow
    wait: Duration = 5 * MINUTE  # for more output of the same task


RULES = Rules()


def retention(settings: Settings) -> LogRetention:
    return LogRetention(settings.retention, settings.dead_retention, settings.log_retention, settings.log_space)


class Sealer:
    name = "sealer"

    def __init__(
        self,
        store: Store,
        chance: Chance,
        retention: LogRetention,
        leads: Callable[[], bool],
        pack: Pack,
        rules: Rules = RULES,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """`busy`: whether the machine has no time to spare for sealing."""
        self._store, self._chance, self._retention, self._leads = store, chance, retention, leads
        self._packer, self._rules, self._busy = pack, rules, busy
        self._after: ChunkCursor | None
        self._since: Instant = 0  # when the output was kept that is sealed now
        self._begin_anew()
        self._unfit: set[str] = set()  # jobs whose output can't be sealed

    async def tick(self) -> float:
        if not self._leads():
            self._begin_anew()
            return SOON
        if not self._batches and not self._walked:
            await self._walk()
        await self._seal_some()
        if self._batches or not self._walked:
            return BREATH
        self._begin_anew()
        return await self._keep_house()

    async def _walk(self) -> None:
        page = await self._store.runs(SYSTEM, self._after, self._rules.settled, PAGE)
        self._since = page.runs[0].kept_at if page.runs else self._store.now()
        self._batches += self._gathering.add(one for one in page.runs if one.job_id not in self._unfit)
        if page.last is not None:
            self._after = page.last
        else:
            self._walked = True
            self._batches += self._gathering.overdue(self._store.now())

    def _begin_anew(self) -> None:
        self._after, self._gathering = None, Gathering(self._rules)
        self._batches: deque[list[Run]] = deque()  # what is to be sealed
        self._walked = False

    async def _keep_house(self) -> float:
        busy = await self._rewrite_purged()
        busy |= await self._join_small()
        busy |= bool(await self._store.prune_output(SYSTEM, self._retention, PRUNED))
        return BREATH if busy else REST

    # -- sealing -----------------------------------------------------------------------------------------------------
    async def _seal_some(self) -> None:
        """As much as one tick may take. While some pieces wait to be packed, the one before them is written and the
        next is read."""
        packing: deque[tuple[Piece, asyncio.Task[NewSegment]]] = deque()
        clock = asyncio.get_running_loop().time
        begun = last = clock()
        try:
            async for piece in self._pieces(self._batches):
                packing.append((piece, asyncio.create_task(self._pack_piece(piece))))
                if len(packing) > WAITING:
                    await self._finish(*packing.popleft())
                await self._give_way(clock() - last)
                last = clock()
                if last > begun + SLICE:
                    break
            while packing:
                await self._finish(*packing.popleft())
        finally:
            for _, task in packing:
                task.cancel()

    async def _give_way(self, took: float) -> None:
        """Jobs come first: their output is safe before it is sealed."""
        if self._store.now() - self._since < WAITS and self._busy():
            await asyncio.sleep((GIVES_WAY - 1) * took)

    async def _pieces(self, batches: deque[list[Run]]) -> AsyncIterator[Piece]:
        """Mostly one of each batch; more of large output. What was not read yet stays in `batches`."""
        while batches:
            batch = batches.popleft()
            size = sum(one.size for one in batch)
            room = size + 1 if size < 2 * self._rules.target else self._rules.target
            found = await self._store.read_runs(SYSTEM, batch, room)
            if found.rest:
                batches.appendleft(found.rest)
            if found.chunks:
                yield Piece(batch[0], found)

    async def _pack_piece(self, piece: Piece) -> NewSegment:
        first = piece.first
        return await self._pack(piece.read.chunks, first.owner, first.task, first.dead)

    async def _finish(self, piece: Piece, packing: asyncio.Task[NewSegment]) -> None:
        try:
            await self._store.seal(SYSTEM, [Sealing(await packing, piece.read.runs)])
        except StoreError:
            raise
        except Exception:
            if len({run.job_id for run in piece.read.runs}) == 1:
                self._unfit.add(piece.read.runs[0].job_id)
            else:  # the output of each job by itself: one that can't be sealed must not hold up the others
                for run in piece.read.runs:
                    async for part in self._pieces(deque([[run]])):
                        await self._finish(part, asyncio.create_task(self._pack_piece(part)))

    async def _pack(self, chunks: list[Chunk], owner: str, task: str, lasting: bool) -> NewSegment:
        packed = await self._packer(chunks)
        positions = [(one.fence, one.number) for one in chunks]
        return NewSegment(
            id=self._chance.job_id(self._store.now()), owner=owner, task=task, lasting=lasting,
            first_at=packed.first_at, last_at=packed.last_at, lines=packed.lines,
            size=sum(len(one.body) for one in chunks if one.stream != CUT), low=Position(*min(positions)),
            high=Position(*max(positions)), jobs=packed.jobs, words=packed.words, body=packed.body,
        )  # fmt: skip

    # -- rewriting ---------------------------------------------------------------------------------------------------
    async def _rewrite_purged(self) -> bool:
        purged = await self._store.purged_output(SYSTEM, PURGED)
        if not purged.jobs:
            return False
        sealings = [await self._rewrite([one], frozenset(purged.jobs)) for one in purged.segments]
        await self._store.seal(SYSTEM, [one for one in sealings if one is not None], purged.jobs)
        return True

    async def _join_small(self) -> bool:
        joined = False
        for group in await self._store.small_segments(SYSTEM, GROUPS):
            some = _together(group, self._rules.target)
            sealing = await self._rewrite(some, frozenset()) if len(some) >= LEAST_JOINED else None
            if sealing is not None:
                joined |= (await self._store.seal(SYSTEM, [sealing]))[0]
        return joined

    async def _rewrite(self, old: Sequence[Stored], without: frozenset[str]) -> Sealing | None:
        """These segments as one; None if one of them is damaged."""
        chunks: list[Chunk] = []
        for one in old:
            try:
                chunks += [chunk for chunk in unpack(one.body) if chunk.job_id not in without]
            except BadSegment:
                await self._store.set_segments_aside(SYSTEM, [one.id])
                return None
        segment = None
        if chunks:
            first = old[0]
            segment = await self._pack(chunks, first.owner, first.task, first.lasting)
            segment = msgspec.structs.replace(segment, kept_at=max(one.kept_at for one in old))
        return Sealing(segment, segments=[one.id for one in old])


class Piece(NamedTuple):
    """What becomes a segment."""

    first: Run  # of its batch: all runs have its owner, task and end
    read: RunsRead


class Gathering:
    """Runs that are to be sealed together."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._groups: dict[tuple[str, str, bool], _Group] = {}

    def add(self, runs: Iterable[Run]) -> list[list[Run]]:
        """Returns what makes whole segments by now."""
        whole = []
        for one in runs:
            name = one.owner, one.task, one.dead
            group = self._groups.setdefault(name, _Group())
            group.runs.append(one)
            group.size += one.size
            if len(group.runs) >= MOST_RUNS or group.size >= self._rules.target:
                whole.append(self._groups.pop(name).runs)
        return whole

    def overdue(self, now: Instant) -> list[list[Run]]:
        """Smaller parts that have waited long enough."""
        latest = now - self._rules.wait
        return [one.runs for one in self._groups.values() if one.runs[0].kept_at <= latest]


class _Group:
    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.size = 0


def _together(group: Sequence[Stored], target: int) -> list[Stored]:
    """As many of them as make one segment."""
    chosen: list[Stored] = []
    for one in group:
        if chosen and sum(stored.size for stored in chosen) + one.size > target:
            break
        chosen.append(one)
    return chosen

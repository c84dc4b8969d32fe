"""A node dies at any moment while a job floods: what the store has of it and what lies in its spool make one output."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from rota.logs.journal import Title
from rota.logs.recovery import Remains, found
from rota.logs.sink import Sink
from rota.logs.spool import Spool
from rota.model.job import Ref
from rota.model.output_marks import left_out
from rota.model.principal import LOCAL, SYSTEM
from rota.model.retry import Retry
from rota.store.values import CUT, Chunk, Position
from tests.contracts.world import World
from tests.store.sealing import make_sealer, run

LIMIT = 2048


def written(size: int) -> bytes:
    """Each byte can be told from its place."""
    return b"".join(b"%07d\n" % number for number in range(size // 8 + 1))[:size]


class Flood:
    """A job whose output is carried now and then, as its node does it, until that dies."""

    def __init__(self, world: World, ref: Ref, spool: Spool, bits: random.Random) -> None:
        self._world, self._bits = world, bits
        place = spool.of(lambda: Title(ref.job_id, ref.fence, LIMIT))
        self._sink = Sink(ref, LIMIT, world.clock.now, lambda _: None, spool=place)
        self.size = 0
        self._under_way: list[Chunk] = []  # sent, and not answered

    def write(self) -> None:
        size = self._bits.randint(1, 400)
        self._sink.write("stdout", written(self.size + size)[self.size :])
        self.size += size

    async def carry(self) -> None:
        """The store may have it without our knowing."""
        if not self._under_way:
            self._under_way = [*self._sink.take_first(1 << 20), *self._sink.take_last(1 << 20)]
        if self._under_way and self._bits.random() < 0.7:
            await self._world.store.append_output(SYSTEM, self._under_way)
            if self._bits.random() < 0.7:
                self._under_way = []
                self._sink.stored()

    async def flow(self) -> None:
        for _ in range(self._bits.randint(1, 60)):
            if self._bits.random() < 0.6:
                self.write()
            else:
                await self.carry()
            self._world.clock.advance(self._bits.choice([0.0, 0.005, 0.05]))


def check(chunks: Sequence[Chunk], size: int) -> None:
    place, whole = 0, written(size)
    for one in chunks:
        if one.stream == CUT:
            place += left_out(one.body)[0]
        else:
            assert one.body == whole[place : place + len(one.body)], [(o.number, o.stream, len(o.body)) for o in chunks]
            place += len(one.body)
    assert place == size, [(o.number, o.stream, len(o.body)) for o in chunks]


async def replay(world: World, folder: Path, bits: random.Random) -> None:
    """May be cut short before its files go: then it is made again."""
    while True:
        for one in found(folder, LIMIT):
            assert isinstance(one, Remains)
            if one.chunks:
                await world.store.append_output(SYSTEM, one.chunks, late=True)
        if bits.random() < 0.5:
            return
        if bits.random() < 0.5:
            world.clock.advance(10)
            await run(make_sealer(world.store))


@pytest.mark.parametrize("seed", range(30))
async def test_a_flood(world: World, tmp_path: Path, seed: int) -> None:
    bits = random.Random(seed)
    actor = await world.node()
    job_id = await world.one(retry=Retry(0))
    ref = (await actor.take(job_id)).ref
    spool = Spool(tmp_path / "base", "life", lambda _: None)
    flood = Flood(world, ref, spool, bits)
    await flood.flow()
    await actor.die()
    await world.store.cancel(LOCAL, [job_id], "no more")
    if bits.random() < 0.5:
        world.clock.advance(10)
        await run(make_sealer(world.store))
    await replay(world, spool.folder, bits)
    check(await world.store.output(LOCAL, job_id, Position(), 1000), flood.size)
    spool.close()

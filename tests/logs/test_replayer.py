"""The replayer: spools without an owner come to the store, once, and nothing in them stops it."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from rota.errors import InvalidInput, StoreUnavailable
from rota.logs.journal import Title
from rota.logs.replayer import ASIDE, LOOK, LOOK_SOON, Replayer
from rota.logs.shipper import Shipper
from rota.logs.sink import Sink
from rota.logs.spool import Spool, abandoned
from rota.model.job import Ref, Verdict
from rota.store.base import Store
from rota.store.values import Chunk
from rota.telemetry.events import Bus, Event, OutputAside, OutputRecovered

ONE, TWO = Ref("one", 1), Ref("two", 5)


class Shelf:
    """The verbs of a store that a replay and a shipper use."""

    def __init__(self) -> None:
        self.kept: dict[tuple[Ref, int], bytes] = {}
        self.vouched: list[tuple[Ref, str]] = []
        self.running: set[Ref] = set()
        self.errors: list[Exception] = []
        self.over: set[Ref] = set()

    def now(self) -> int:
        return 7

    def proof(self, ref: Ref) -> str:
        return f"of {ref.job_id}"

    def vouch(self, ref: Ref, proof: str) -> None:
        self.vouched.append((ref, proof))

    async def append_output(self, who: Any, chunks: Sequence[Chunk], late: bool = False) -> list[Verdict]:
        if self.errors:
            raise self.errors.pop(0)
        return [self._keep(Ref(one.job_id, one.fence), one, late) for one in chunks]

    def _keep(self, ref: Ref, chunk: Chunk, late: bool) -> Verdict:
        if (ref, chunk.number) in self.kept:
            return Verdict.ALREADY
        if late and ref in self.running:
            return Verdict.EARLY
        if not late and ref in self.over:
            return Verdict.STALE
        self.kept[ref, chunk.number] = chunk.body
        return Verdict.APPLIED

    def text(self, ref: Ref) -> bytes:
        kept = {number: body for (of, number), body in self.kept.items() if of == ref}
        return b"".join(kept[number] for number in sorted(kept))


class Stage:
    def __init__(self, base: Path) -> None:
        self.base, self.shelf, self.told = base, Shelf(), list[Event]()
        bus = Bus()
        bus.subscribe(self.told.append)
        self.replayer = Replayer(cast(Store, self.shelf), base, "own", 1000, bus)

    def left(self, name: str, *said: tuple[Ref, bytes]) -> Path:
        """A spool whose node is gone."""
        spool = Spool(self.base, name, lambda _: None)
        for ref, body in said:
            place = spool.of(lambda ref=ref: Title(ref.job_id, ref.fence, 1000, f"of {ref.job_id}"))  # type: ignore[misc]
            Sink(ref, 1000, lambda: 7, lambda _: None, spool=place).write("stdout", body)
        spool.close()
        return spool.folder

    @property
    def recovered(self) -> list[OutputRecovered]:
        return [one for one in self.told if isinstance(one, OutputRecovered)]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "spool")


async def test_what_is_left_comes_to_the_store(stage: Stage) -> None:
    assert await stage.replayer.tick() == LOOK  # there is no folder yet
    folder = stage.left("dead", (ONE, b"first\n"), (TWO, b"second\n"))
    assert await stage.replayer.tick() == LOOK
    assert (stage.shelf.text(ONE), stage.shelf.text(TWO)) == (b"first\n", b"second\n")
    assert dict(stage.shelf.vouched) == {ONE: "of one", TWO: "of two"}
    assert not folder.exists()
    assert stage.recovered == [OutputRecovered(2, 13)]
    assert await stage.replayer.tick() == LOOK
    assert len(stage.told) == 1


async def test_what_has_an_owner_is_left_alone(stage: Stage) -> None:
    stage.left("own", (ONE, b"of a former life of this node\n"))
    living = Spool(stage.base, "living", lambda _: None)
    place = living.of(lambda: Title("two", 5, 1000))
    Sink(TWO, 1000, lambda: 7, lambda _: None, spool=place).write("stdout", b"mine")
    await stage.replayer.tick()
    assert stage.shelf.kept == {}
    living.close()
    await stage.replayer.tick()
    assert stage.shelf.text(TWO) == b"mine"


async def test_it_waits_until_the_attempt_has_ended(stage: Stage) -> None:
    folder = stage.left("dead", (ONE, b"first\n"), (TWO, b"second\n"))
    stage.shelf.running = {TWO}
    assert await stage.replayer.tick() == LOOK_SOON
    assert (stage.shelf.text(ONE), stage.shelf.text(TWO)) == (b"first\n", b"")
    stage.shelf.running = set()
    assert await stage.replayer.tick() == LOOK
    assert stage.shelf.text(TWO) == b"second\n"
    assert not folder.exists()


async def test_it_waits_while_the_store_is_away(stage: Stage) -> None:
    folder = stage.left("dead", (ONE, b"first\n"))
    stage.shelf.errors = [StoreUnavailable("away")]
    with pytest.raises(StoreUnavailable):
        await stage.replayer.tick()
    with abandoned(folder) as free:
        assert free
    await stage.replayer.tick()
    assert stage.shelf.text(ONE) == b"first\n"


async def test_what_the_store_can_not_hold_is_put_aside(stage: Stage) -> None:
    folder = stage.left("dead", (ONE, b"first\n"))
    stage.shelf.errors = [InvalidInput("chunk", "it", "another") for _ in range(3)]
    for _ in range(2):
        with pytest.raises(InvalidInput):
            await stage.replayer.tick()
    await stage.replayer.tick()
    assert [type(one) for one in stage.told] == [OutputAside]
    assert not folder.exists()
    assert len(list((stage.base / ASIDE).iterdir())) == 1


async def test_foreign_files_are_put_aside_once_and_the_rest_goes_on(stage: Stage) -> None:
    folder = stage.left("dead", (ONE, b"first\n"))
    (folder / "stranger").write_bytes(b"?")
    await stage.replayer.tick()
    await stage.replayer.tick()
    assert stage.shelf.text(ONE) == b"first\n"
    assert [type(one) for one in stage.told] == [OutputAside, OutputRecovered]


async def test_strange_files_of_many_kinds_are_put_aside(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.logs.replayer.MOST_ASIDE", 2)
    for number in range(4):  # more than are kept aside, folders among them
        folder = stage.left(f"dead{number}", (ONE, b"first\n"))
        (folder / ("n" * 255)).write_bytes(b"?")
        (folder / "folder").mkdir()
        (folder / "folder" / "within").touch()
        assert await stage.replayer.tick() == LOOK
        assert not folder.exists()
    assert stage.shelf.text(ONE) == b"first\n"
    assert len(list((stage.base / ASIDE).iterdir())) == 2


async def test_a_folder_in_trouble_does_not_hold_up_the_others(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.left("a", (ONE, b"first\n"))
    stage.left("b", (TWO, b"second\n"))
    unlink = Path.unlink

    def failing(path: Path, missing_ok: bool = False) -> None:
        if path.parent.name == "a":
            raise OSError(errno.EIO, "broken")
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", failing)
        with pytest.raises(OSError, match="broken"):
            await stage.replayer.tick()
    assert stage.shelf.text(TWO) == b"second\n"
    assert await stage.replayer.tick() == LOOK
    assert not (stage.base / "a").exists()


@pytest.mark.parametrize("mode", [0o777, 0o770])
async def test_a_place_where_others_may_write_is_not_trusted(stage: Stage, mode: int) -> None:
    stage.left("dead", (ONE, b"forged\n"))
    stage.base.chmod(mode)
    assert await stage.replayer.tick() == LOOK
    assert stage.shelf.kept == {}
    with pytest.raises(PermissionError, match="ROTA_SPOOL"):
        Spool(stage.base, "life", lambda _: None)
    stage.base.chmod(0o700)
    await stage.replayer.tick()
    assert stage.shelf.text(ONE) == b"forged\n"


async def test_a_place_of_another_user_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.logs.spool.os.geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PermissionError, match="ROTA_SPOOL"):
        Spool(tmp_path, "life", lambda _: None)


# -- with a shipper --------------------------------------------------------------------------------------------------
async def test_a_shipper_leaves_what_is_refused_because_others_have_the_job(stage: Stage) -> None:
    spool = Spool(stage.base, "mine", lambda _: None)
    shipper = Shipper(cast(Store, stage.shelf), 1000, Bus(), spool)
    stage.shelf.over = {ONE}
    refused, fine = shipper.open(ONE), shipper.open(TWO)
    refused.write("stdout", b"too late\n")
    fine.write("stdout", b"in time\n")
    await asyncio.gather(shipper.close(refused), shipper.close(fine))
    shipper.stop()
    spool.close()
    assert stage.shelf.text(TWO) == b"in time\n"
    await stage.replayer.tick()
    assert stage.shelf.text(ONE) == b"too late\n"
    assert stage.recovered == [OutputRecovered(1, 9)]


async def test_a_shipper_that_was_stopped_leaves_the_rest(stage: Stage) -> None:
    spool = Spool(stage.base, "mine", lambda _: None)
    shipper = Shipper(cast(Store, stage.shelf), 1000, Bus(), spool)
    sink = shipper.open(ONE)
    sink.write("stdout", b"unsent\n")
    shipper.stop()
    spool.close()
    await stage.replayer.tick()
    assert stage.shelf.text(ONE) == b"unsent\n"


async def test_nothing_is_left_after_an_orderly_end(stage: Stage) -> None:
    spool = Spool(stage.base, "mine", lambda _: None)
    shipper = Shipper(cast(Store, stage.shelf), 1000, Bus(), spool)
    for number in range(3):
        sink = shipper.open(Ref("one", number))
        sink.write("stdout", b"said\n")
        await shipper.close(sink)
    assert len(list(spool.folder.iterdir())) == 1  # one file serves one attempt after the other
    shipper.stop()
    spool.close()
    assert not spool.folder.exists()

"""What lies in a spool is brought to the store or told as broken, whatever it is; and a replay may die at any step."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.logs.journal import _CHECK, _HEAD, STREAMS, Journal, Title, _checksum, read_records
from rota.logs.recovery import Broken, Remains, found
from rota.logs.sink import Sink
from rota.logs.spool import LEFT, SUFFIX, Spool
from rota.model.job import Ref
from tests.logs.spooled import REF, Killed, Shelf, copied, remains


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "base", "life", lambda _: None)
    yield spool
    spool.close()


def sink_in(spool: Spool, ref: Ref = REF, limit: int = 1 << 20) -> Sink:
    place = spool.of(lambda: Title(ref.job_id, ref.fence, limit))
    return Sink(ref, limit, lambda: 5, lambda _: None, spool=place)


def left_over(sink: Sink, body: bytes, stream: str = "stdout") -> None:
    """What the keeper found in a pipe."""
    assert sink.spool is not None
    Path(f"{sink.spool.rest}{stream}").write_bytes(body)


def carried(sink: Sink, shelf: Shelf) -> None:
    shelf.append([*sink.take_first(1 << 20), *sink.take_last(1 << 20)])
    sink.stored()


def broken(folder: Path) -> list[Broken]:
    return [one for one in found(folder, 1000) if isinstance(one, Broken)]


# -- what is not a file of ours --------------------------------------------------------------------------------------
def named_pipe(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    target = path.parent.parent.parent / "elsewhere"
    target.write_bytes(b"not for the store\n")
    path.symlink_to(target)


def folder(path: Path) -> None:
    path.mkdir()
    (path / "within").write_bytes(b"?")


def endless(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def of_a_strange_attempt(path: Path) -> None:
    path.with_name(f"{LEFT}caf\udcff~1~~stdout").write_bytes(b"?")


def of_an_attempt_beyond_numbers(path: Path) -> None:
    path.with_name(f"{LEFT}job~{'9' * 30}~~stdout").write_bytes(b"?")


@pytest.mark.parametrize("name", [f"7{SUFFIX}", f"{LEFT}other~1~~stdout", "n" * 255])
@pytest.mark.parametrize(
    "made", [named_pipe, link, folder, endless, of_a_strange_attempt, of_an_attempt_beyond_numbers]
)
def test_what_is_no_file_of_ours_is_broken_and_the_rest_is_there(spool: Spool, name: str, made: Any) -> None:
    sink_in(spool).write("stdout", b"good\n")
    made(spool.folder / name)
    all_of_it = list(found(spool.folder, 1000))
    assert {type(one) for one in all_of_it} == {Broken, Remains}
    assert [chunk.body for one in all_of_it if isinstance(one, Remains) for chunk in one.chunks] == [b"good\n"]


def test_a_file_of_another_user_is_broken(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    sink_in(spool).write("stdout", b"forged\n")
    monkeypatch.setattr("rota.logs.recovery.os.geteuid", lambda: os.getuid() + 1)
    assert "our user" in broken(spool.folder)[0].why


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_machine_in_trouble_breaks_no_file(spool: Spool, error: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sink_in(spool).write("stdout", b"good\n")

    def short(*_: Any, **__: Any) -> int:
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as patch:
        patch.setattr("rota.logs.recovery.os.open", short)
        with pytest.raises(OSError, match=r"\[Errno"):
            list(found(spool.folder, 1000))
    assert [chunk.body for chunk in remains(spool.folder, 1000)] == [b"good\n"]


@pytest.mark.parametrize("seed", range(300))
def test_made_up_contents_never_stop_it(spool: Spool, seed: int) -> None:
    """Records with right checksums and wrong contents."""
    bits = random.Random(seed)
    sink = sink_in(spool, limit=bits.choice([10, 2000, 1 << 20]))
    for number in range(6):
        sink.write(bits.choice(STREAMS[:3]), b"%d\n" % number * bits.randint(1, 300))
        if bits.random() < 0.5:
            carried(sink, Shelf())
        elif bits.random() < 0.5:
            sink.take_first(1 << 20)
    (path,) = spool.folder.iterdir()
    path.write_bytes(b"".join(_forged(path.read_bytes(), bits)))
    sink_in(spool, Ref("other", 2)).write("stdout", b"good\n")
    ends = {one.ref.job_id: one for one in found(copied(spool.folder), 1000) if isinstance(one, Remains)}
    assert [chunk.body for chunk in ends["other"].chunks] == [b"good\n"]
    for one in ends.values():
        assert all(0 <= chunk.number < 1 << 62 for chunk in one.chunks)


def _forged(data: bytes, bits: random.Random) -> Iterator[bytes]:
    place = 0
    for record in list(read_records(data)):
        head = bytearray(data[place + _CHECK.size : place + _CHECK.size + _HEAD.size])
        body = bytearray(record.body)
        place += _CHECK.size + _HEAD.size + len(body)
        if place > 400 and bits.random() < 0.5:  # mostly the title stays, so that there is an attempt
            field = bits.choice([range(16, 18), range(24, len(head)), range(4, 12)])
            for _ in range(bits.randint(1, 4)):
                head[bits.choice(field)] = bits.choice([0, 1, 127, 128, 255])
            if body and bits.random() < 0.5:
                body[bits.randrange(len(body))] = bits.choice([0, 1, 127, 128, 255])
        yield _CHECK.pack(_checksum(bytes(head), bytes(body))) + head + body


def test_a_record_of_a_later_version_is_broken(spool: Spool) -> None:
    sink_in(spool).write("stdout", b"one\n")
    (path,) = spool.folder.iterdir()
    data = path.read_bytes()
    title, _ = read_records(data)
    size = _CHECK.size + _HEAD.size + len(title.body)
    head = bytearray(data[size + _CHECK.size : size + _CHECK.size + _HEAD.size])
    head[16] = 9
    path.write_bytes(data[:size] + _CHECK.pack(_checksum(bytes(head), b"one\n")) + head + b"one\n")
    assert len(broken(spool.folder)) == 1


# -- what lay in pipes -----------------------------------------------------------------------------------------------
def test_what_lay_in_pipes_comes_after_what_is_stored(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node dies when it has begun a new file for bytes that are still in the pipe."""
    shelf, sink = Shelf(), sink_in(spool)
    for number in range(3):
        sink.write("stdout", b"%d\n" % number)
        carried(sink, shelf)
    reader, writer = os.pipe()

    def dies(*_: Any) -> bytes:
        raise Killed

    monkeypatch.setattr(Journal, "_head", _dying_after_title(Journal._head))
    os.write(writer, b"3\n")
    with pytest.raises(Killed):
        sink.pull("stdout", reader, 100)
    left_over(sink, os.read(reader, 100))
    os.close(reader)
    os.close(writer)
    monkeypatch.undo()
    shelf.append(remains(copied(spool.folder), 1000))
    assert shelf.said[0] == b"0\n1\n2\n3\n"


def _dying_after_title(head: Any) -> Any:
    def dying(self: Journal, kind: int, *rest: Any) -> bytes:
        if kind != 1:
            raise Killed
        made: bytes = head(self, kind, *rest)
        return made

    return dying


def test_what_lay_in_pipes_is_last_also_without_a_journal(spool: Spool) -> None:
    shelf, sink = Shelf(), sink_in(spool)
    for number in range(3):
        sink.write("stdout", b"%d\n" % number)
        carried(sink, shelf)
    for path in spool.folder.iterdir():
        path.unlink()  # as when the disk was full
    left_over(sink, b"3\n")
    for _ in range(2):
        shelf.append(remains(copied(spool.folder), 1000))
    assert shelf.said[0] == b"0\n1\n2\n3\n"


# -- a replay that dies ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("gone", range(1, 7))
@pytest.mark.parametrize("limit", [600, 1 << 20])
def test_a_replay_that_died_while_it_removed_files(
    spool: Spool, gone: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had brought to the store stays as it is."""
    monkeypatch.setattr("rota.logs.journal.FILE_SIZE", 700)
    shelf, sink = Shelf(), sink_in(spool, limit=limit)
    for number in range(40):
        sink.write(STREAMS[number % 2], b"%d %s\n" % (number, b"x" * 60))
        if number in (5, 20):
            carried(sink, shelf)
    left_over(sink, b"in the pipe\n" * 20)
    (first,) = found(spool.folder, limit)
    assert isinstance(first, Remains)
    shelf.append(first.chunks)
    before = dict(shelf.kept)
    assert len(first.paths) > 2
    for path in first.paths[:gone]:
        path.unlink()
    for one in found(spool.folder, limit):
        if isinstance(one, Remains):
            shelf.append(one.chunks)
    assert shelf.kept == before


def test_a_death_between_a_new_file_and_the_chunks_that_were_taken(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record in the new file must not tell that they were taken before they are named."""
    monkeypatch.setattr("rota.logs.journal.FILE_SIZE", 400)
    clock = iter(range(0, 1 << 40, 1 << 20))
    place = spool.of(lambda: Title(REF.job_id, REF.fence, 1 << 20))
    sink = Sink(REF, 1 << 20, lambda: next(clock), lambda _: None, spool=place)
    copies: list[Path] = []
    packed = Journal._packed

    def copying(self: Journal, *rest: Any) -> Any:
        copies.append(copied(spool.folder))
        return packed(self, *rest)

    written = b""
    for number in range(12):
        written += (body := b"%d %s\n" % (number, b"x" * 90))
        sink.write("stdout", body)
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "_packed", copying)
            assert sink.take_first(100)
        for copy in copies:
            shelf = Shelf()
            shelf.append(remains(copy, 1 << 20))
            assert shelf.said[0] == written
        copies.clear()

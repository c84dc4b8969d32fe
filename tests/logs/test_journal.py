"""The journal: whenever its writer dies, each byte is rebuilt once and in order."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.logs import journal
from rota.logs.journal import Journal, JournalFile, Title, read_records
from rota.logs.sink import Sink
from rota.logs.spool import SUFFIX, Spool
from rota.model.job import Ref
from tests.logs.spooled import REF, SMALL_FILE, Budget, Killed, Life, broken, copied, remains

STEPS = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 900)),
    st.tuples(st.just("error"), st.integers(1, 90)),
    st.tuples(st.just("wait"), st.just(0)),
    st.tuples(st.just("carry"), st.integers(0, 1500)),
    st.tuples(st.just("carry"), st.just(1 << 20)),
)


@contextmanager
def life(limit: int) -> Iterator[Life]:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        yield Life(Path(folder), limit, patch)


def play(one: Life, steps: list[tuple[str, int]]) -> None:
    for number, (step, size) in enumerate(steps):
        if step == "wait":
            one.clock.advance(1)
        elif step == "carry":
            one.carry(size)
        else:
            body = b"%d %s\n" % (number, b"x" * size)
            one.write(body, "stderr" if step == "error" else "stdout")


@given(
    steps=st.lists(STEPS, max_size=25),
    limit=st.sampled_from([1024, 3000, 1 << 20]),
    death=st.integers(0, 20_000),
    last=st.sampled_from(["unsent", "sent", "reached", "answered"]),
    cut_short=st.integers(0, 30),
)
@settings(max_examples=80, deadline=None)
def test_whenever_its_writer_dies_each_byte_is_rebuilt_once(
    steps: list[tuple[str, int]], limit: int, death: int, last: str, cut_short: int
) -> None:
    with life(limit) as one:
        one.budget = Budget(death)
        with suppress(Killed):
            play(one, steps)
            if last != "unsent" and one.take(1 << 20) and last != "sent":
                one.shelf.append(one.sent[-1])
                if last == "answered":
                    one.sink.stored()
        one.replay(most=cut_short)  # a replay that dies too
        again = one.replay()
        assert one.replay() == again
        one.check()


def _forgets(self: Journal, *_: Any) -> None:
    """Chunks that were taken are not noted."""


def _lets_go(self: Journal, files: list[JournalFile], *_: Any) -> None:
    """Files go while the last record still needs them."""
    for file in files:
        self._own.remove(file)
        self._files.give(file)


@pytest.mark.parametrize(("name", "mutant"), [("took", _forgets), ("_let_go", _lets_go)])
def test_the_check_finds_what_is_wrong(name: str, mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def lives() -> None:
        with life(1 << 20) as one:
            for number in range(10):
                one.clock.advance(1)
                one.write(b"%d %s\n" % (number, b"y" * 200))
            one.carry(1000)
            one.take(1 << 20)  # and it does not arrive
            one.write(b"without a pause")
            one.replay()
            one.check()

        with life(1 << 20) as one:
            for number in range(10):
                one.clock.advance(1)
                one.write(b"%d %s\n" % (number, b"y" * 200))
            one.carry(1000)
            one.replay()
            one.check()

    lives()
    monkeypatch.setattr(Journal, name, mutant)
    with pytest.raises(AssertionError):
        lives()


def test_files_go_when_nothing_in_them_waits() -> None:
    with life(1 << 20) as one:
        for _ in range(50):
            one.write(b"z" * 300)
        assert len(list(one.folder.glob(f"*{SUFFIX}"))) > 10
        one.carry(1 << 20)
        assert [len(list(read_records(path.read_bytes()))) > 0 for path in one.folder.iterdir()].count(True) == 1
        one.sink.done()
        assert remains(one.folder, one.limit) == []
        one.spool.close()
        assert not one.folder.exists()


def test_a_flood_takes_no_more_room_than_its_window() -> None:
    with life(4000) as one:
        for number in range(2000):
            one.write(b"%d %s\n" % (number, b"f" * 100))
        size = sum(path.stat().st_size for path in one.folder.iterdir())
        assert size < 4 * 4000 + 4 * SMALL_FILE
        one.replay()
        one.check()


def test_a_pipe_is_read_through_the_file() -> None:
    with life(1 << 20) as one:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        with pytest.raises(BlockingIOError):
            one.sink.pull("stdout", reader, 100)
        assert list(one.folder.iterdir()) == []
        for body in (b"one\n", b"two\n" * 1000):
            os.write(writer, body)
            assert one.sink.pull("stdout", reader, 1 << 16) == body
            one.written += body
        os.close(writer)
        assert one.sink.pull("stdout", reader, 100) == b""
        os.close(reader)
        one.replay()
        one.check()


def test_what_left_the_pipe_is_there_even_if_nothing_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with life(1 << 20) as one:
        reader, writer = os.pipe()
        one.write(b"before\n")

        def dies(*_: Any) -> None:
            raise Killed

        monkeypatch.setattr(Journal, "_seal", dies)
        os.write(writer, b"last words\n")
        with suppress(Killed):
            one.sink.pull("stdout", reader, 100)
        os.close(reader)
        os.close(writer)
        one.written += b"last words\n"
        one.replay()
        one.check()


def test_a_file_that_served_another_attempt_tells_nothing_of_it() -> None:
    with life(1 << 20) as one:
        for _ in range(3):
            one.write(b"a" * 50)
        one.carry(1 << 20)
        one.sink.done()
        other = Sink(Ref("other", 2), 1 << 20, one.clock.now, lambda _: None, spool=_place(one.spool, Ref("other", 2)))
        other.write("stdout", b"b" * 50)
        (chunk,) = remains(one.folder, one.limit)
        assert (chunk.job_id, chunk.body) == ("other", b"b" * 50)


def _place(spool: Spool, ref: Ref) -> Any:
    return spool.of(lambda: Title(ref.job_id, ref.fence, 1 << 20))


class TestTroubles:
    @pytest.fixture
    def refused(self, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
        """Writes fail while it says True."""
        now = [False]
        write = os.pwritev

        def pwritev(descriptor: int, parts: list[bytes], place: int) -> int:
            if now[0]:
                raise OSError(errno.ENOSPC, "full")
            return write(descriptor, parts, place)

        monkeypatch.setattr(os, "pwritev", pwritev)
        return now

    def test_a_full_disk_costs_the_spool_and_not_the_output(
        self, tmp_path: Path, refused: list[bool], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told: list[OSError] = []
        spool = Spool(tmp_path / "base", "life", told.append)
        sink = Sink(REF, 1 << 20, lambda: 5, lambda _: None, spool=_place(spool, REF))
        sink.write("stdout", b"one")
        refused[0] = True
        sink.write("stdout", b"two")
        sink.write("stdout", b"three")
        assert len(told) == 1
        assert remains(copied(spool.folder), 100) == []  # not a part of it
        assert b"".join(chunk.body for chunk in sink.take_first(1000)) == b"onetwothree"
        sink.stored()
        refused[0] = False
        sink.write("stdout", b"four")  # it pauses
        assert remains(copied(spool.folder), 100) == []
        sink.take_first(1000)
        sink.stored()
        monkeypatch.setattr("rota.logs.spool.time.monotonic", lambda: float("inf"))
        sink.write("stdout", b"five")
        assert [chunk.body for chunk in remains(copied(spool.folder), 100)] == [b"five"]
        assert len(told) == 1

    def test_a_folder_that_is_gone(self, tmp_path: Path) -> None:
        told: list[OSError] = []
        spool = Spool(tmp_path / "base", "life", told.append)
        spool.folder.rmdir()
        sink = Sink(REF, 1 << 20, lambda: 5, lambda _: None, spool=_place(spool, REF))
        sink.write("stdout", b"one")
        sink.write("stdout", b"two")
        assert len(told) == 1
        assert [chunk.body for chunk in sink.take_first(1000)] == [b"onetwo"]
        sink.stored()
        sink.done()
        spool.close()

    @pytest.mark.parametrize("place", ["middle", "title", "end"])
    def test_a_damaged_file_is_told_or_left_out(self, place: str) -> None:
        with life(1 << 20) as one:
            for _ in range(30):
                one.write(b"q" * 200)
            files = sorted(one.folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
            path = files[2] if place == "middle" else files[0] if place == "title" else files[-1]
            body = bytearray(path.read_bytes())
            body[{"middle": len(body) // 2, "title": 140, "end": len(body) - 1}[place]] ^= 1
            path.write_bytes(body)
            if place == "end":
                one.written, one.under_way = one.written[:-200], b""
                one.replay()
                one.check()
            else:
                assert broken(one.folder)

    @pytest.mark.parametrize("name", ["stranger", "left~job~x~~stdout", "left~job~1~~stdin", f"7{SUFFIX}"])
    def test_a_foreign_file(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_bytes(b"whatever" * 100)
        assert len(broken(tmp_path)) == (not name.endswith(SUFFIX))

    def test_another_version(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        spool = Spool(tmp_path, "life", lambda _: None)
        sink = Sink(REF, 1000, lambda: 5, lambda _: None, spool=spool.of(lambda: Title("job", 1, 1000, format=2)))
        sink.write("stdout", b"one")
        assert broken(spool.folder)


def test_what_lay_in_the_pipes_comes_last(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "life", lambda _: None)
    sink = Sink(REF, 1 << 20, lambda: 5, lambda _: None, spool=_place(spool, REF))
    sink.write("stdout", b"one\n")
    sink.take_first(100)
    sink.write("stdout", b"two\n")
    place = sink.spool
    assert place is not None
    Path(f"{place.rest}stdout").write_bytes(b"three\n")
    Path(f"{place.rest}stderr").write_bytes(b"four\n")
    chunks = remains(spool.folder, 1 << 20)
    assert [(chunk.number, chunk.stream, chunk.body) for chunk in chunks] == [
        (0, "stdout", b"one\n"), (1, "stdout", b"two\n"), (2, "stderr", b"four\n"), (3, "stdout", b"three\n"),
    ]  # fmt: skip


def test_a_file_of_records_is_as_small_as_that() -> None:
    assert journal._HEAD.size + 4 < 140

"""How a pool process knows by itself whether anything was written: in processes of their own, with real pipes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from rota.work.functions.tally import Ear, Tally
from rota.work.output import Drain, Output


class Nowhere:
    def write(self, stream: str, body: bytes) -> None:
        pass


class Pair:
    """The node's side, and a way to do something on the other."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.output = Output(Nowhere(), Drain(), self.tally)

    def heard(self, deed: Callable[[], object]) -> bool:
        """In a fork, with the pipes as its standard ones, as a pool process is."""
        pid = os.fork()
        if pid == 0:
            try:
                for place, writer in enumerate(self.output.writers, start=1):
                    os.dup2(writer, place)
                ear = Ear(self.tally.fd)
                ear.begin()
                deed()
                os._exit(10 + ear.heard())
            finally:
                os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code in (10, 11)
        return code == 11

    def close(self) -> None:
        self.output.close()
        self.tally.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.close()


def test_silence(pair: Pair) -> None:
    assert not pair.heard(lambda: None)
    pair.output.read_all()  # in vain
    assert not pair.heard(lambda: None)


@pytest.mark.parametrize("fd", [1, 2])
def test_what_is_still_in_a_pipe(pair: Pair, fd: int) -> None:
    assert pair.heard(lambda: os.write(fd, b"x"))


@pytest.mark.parametrize("fd", [1, 2])
def test_what_was_read_already(pair: Pair, fd: int) -> None:
    def deed() -> None:
        os.write(fd, b"x")
        pair.output.read_all()  # of the copy in this process; the page of the count is shared

    assert pair.heard(deed)


def test_what_a_child_has_written(pair: Pair) -> None:
    assert pair.heard(lambda: os.waitpid(os.spawnv(os.P_NOWAIT, "/bin/echo", ["echo"]), 0))


def test_what_is_being_read(pair: Pair) -> None:
    """The pipe is empty already, and the read is not counted yet."""
    assert pair.heard(pair.tally.begin)


def test_what_was_written_before_does_not_count(pair: Pair) -> None:
    os.write(pair.output.writers[0], b"x")
    pair.output.read_all()
    assert not pair.heard(lambda: None)

"""Guards: what keeper and wardens hold open until all they run is gone, and what takes its place."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.work.keeper.client import KeeperClient
from tests.work.keeper.shell import Shell, finish, until


class Guard:
    """One end goes to the keeper; the other tells whether anybody still has it."""

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair()
        self._ours.setblocking(False)

    @property
    def held(self) -> bool:
        try:
            return bool(self._ours.recv(1))
        except BlockingIOError:
            return True

    def close(self) -> None:
        self._ours.close()
        self.theirs.close()


@pytest.fixture
def guards() -> Iterator[list[Guard]]:
    guards = [Guard(), Guard()]
    yield guards
    for guard in guards:
        guard.close()


def hand_over(keeper: KeeperClient, guard: Guard) -> None:
    keeper.guard([guard.theirs.fileno()])
    guard.theirs.close()


async def test_another_takes_the_place_of_the_one_before(
    shell: Shell, keeper: KeeperClient, guards: list[Guard]
) -> None:
    before, after = guards
    hand_over(keeper, before)
    sleeper = await shell.start("/bin/sleep", "1000")
    assert before.held
    hand_over(keeper, after)
    await until(lambda: not before.held)
    assert after.held
    sleeper.kill()
    await finish(sleeper)
    assert after.held, "as long as there is a keeper"
    await keeper.close()
    await until(lambda: not after.held)


async def test_a_warden_holds_the_new_one_when_the_keeper_is_gone(
    shell: Shell, keeper: KeeperClient, guards: list[Guard]
) -> None:
    before, after = guards
    hand_over(keeper, before)
    sleeper = await shell.start("/bin/sleep", "1000")
    warden = int(Path(f"/proc/{sleeper.pid}/stat").read_text().rpartition(")")[2].split()[1])
    hand_over(keeper, after)
    await until(lambda: not before.held)  # the warden has let go of it, too
    pid = keeper.pid
    assert pid is not None
    # (The keeper is stopped first: it would set its warden going again.)
    for process, number in ((pid, signal.SIGSTOP), (warden, signal.SIGSTOP), (pid, signal.SIGKILL)):
        os.kill(process, number)
    await until(lambda: keeper.pid is None)
    keeper.guard([])  # which closes the copies of this process, and reaches nobody
    assert after.held
    os.kill(warden, signal.SIGCONT)
    await finish(sleeper)
    await until(lambda: not after.held)


async def test_a_new_keeper_gets_the_last(shell: Shell, keeper: KeeperClient, guards: list[Guard]) -> None:
    before, after = guards
    hand_over(keeper, before)
    hand_over(keeper, after)
    pid = keeper.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await until(lambda: keeper.pid is None)
    assert (await finish(await shell.start("/bin/true"))).code == 0
    assert (before.held, after.held) == (False, True)


async def test_the_same_again_is_not_sent(
    keeper: KeeperClient, guards: list[Guard], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = guards
    sent: list[object] = []
    keeper.guard([first.theirs.fileno()])
    monkeypatch.setattr(keeper._links[-1], "guard", sent.append)
    keeper.guard([first.theirs.fileno()])
    assert not sent
    keeper.guard([second.theirs.fileno()])
    assert len(sent) == 1

"""`rota lock list` and `rota lock release`."""

from __future__ import annotations

import pytest

import rota as package
from tests.cli.program import Rota, on_terminal, refused


@pytest.fixture
def mine(rota: Rota) -> package.App:
    """An app on the store of the program."""
    return package.App(f"sqlite:///{rota.folder / 'rota.db'}")


def test_locks_are_listed_held_ones_first(rota: Rota, mine: package.App) -> None:
    with mine, mine.lock_sync("old"):
        pass
    with mine, mine.lock_sync("report") as lock:
        header, held, free = rota.ok("lock", "list").splitlines()
        assert header.split() == ["LOCK", "STATE", "FENCE", "TAKEN", "ENDS"]
        assert held.split()[:6] == ["report", "held", str(lock.fence), "0s", "ago", "in"]
        assert free.split()[:2] == ["old", "free"]
        first, _ = rota.json("lock", "list")
        assert (first["name"], first["held"], first["fence"]) == ("report", True, lock.fence)


def test_a_person_frees_a_lock_and_its_holder_loses_it(
    rota: Rota, mine: package.App, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        with mine, mine.lock_sync("report"):
            said = refused(rota, capsys, "lock", "release", "report")
            assert "no terminal to ask on" in said
            said = rota.ok("lock", "release", "report", "--yes")
            assert said == "report released; whoever held it loses it"

    with pytest.raises(package.LockLost):
        work()
    (entry,) = [one for one in rota.json("audit") if one["deed"] == "free_lock"]
    assert entry["subjects"] == ["report"]
    said = refused(rota, capsys, "lock", "release", "report", "--yes", code=1)
    assert said == "rota: no held lock 'report'\n"


def test_a_terminal_is_asked_first(rota: Rota, mine: package.App) -> None:
    with mine, mine.lock_sync("report") as lock:
        code, shown = on_terminal(rota.folder, "lock", "release", "report", answer="n\n")
        assert (code, "nothing was changed" in shown) == (1, True)
        assert "whoever holds lock 'report' loses it" in shown
        lock.check()


def test_locks_are_completed_by_name(rota: Rota, mine: package.App) -> None:
    with mine, mine.lock_sync("report"):
        assert "report\theld" in rota("__complete", "lock", "release", "").stdout

"""`rota up --reload`: new code without a restart by hand, and bad code that does not end the node."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.cli import reload
from tests.cli.program import LONG, Rota, environment

pytestmark = pytest.mark.slow

CODE = "import rota\napp = rota.App()\n\n@app.task\nasync def version() -> int:\n    return {}\n"


class Node:
    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rota", "up", "--app", "shop:app", "--reload"],
                cwd=folder, stdout=log, stderr=log, env=environment(), start_new_session=True,
            )  # fmt: skip

    def wait_for(self, text: str, times: int = 1) -> None:
        end = time.monotonic() + LONG
        while self.log.read_text().count(text) < times:
            assert time.monotonic() < end, f"no {text!r} in {self.log.read_text()}"
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)

    def write(self, code: str) -> None:
        (self.folder / "shop.py").write_text(code)
        os.utime(self.folder / "shop.py", ns=(time.time_ns(), time.time_ns()))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    (tmp_path / "shop.py").write_text(CODE.format(1))
    node = Node(tmp_path)
    yield node
    if node.process.poll() is None:
        os.killpg(node.process.pid, signal.SIGKILL)
        node.process.wait()


def result(folder: Path) -> str:
    done = Rota(folder)("submit", "--wait", "version")
    return done.stdout.splitlines()[-1]


def test_new_code_runs_and_bad_code_is_waited_out(node: Node) -> None:
    node.wait_for(" is up")
    assert result(node.folder) == "1"
    node.write(CODE.format(22))
    node.wait_for("rota: shop.py changed; starting again")
    node.wait_for(" is up", times=2)
    assert result(node.folder) == "22"
    node.write("def broken(:\n")
    node.wait_for("SyntaxError")
    node.wait_for("rota: waiting for a change")
    node.write(CODE.format(333))
    node.wait_for(" is up", times=3)
    assert result(node.folder) == "333"
    (only,) = Rota(node.folder).json("node", "list")
    assert only["state"] == "live"
    node.process.send_signal(signal.SIGTERM)
    assert node.process.wait(LONG) == 0
    with pytest.raises(ProcessLookupError):  # nobody of its session is left
        os.killpg(node.process.pid, 0)


SLOW = """
import pathlib, time
pathlib.Path("begun").touch()
while not pathlib.Path("go").exists():
    time.sleep(0.02)
"""


def test_a_change_that_is_saved_during_the_import_is_seen(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SLOW + CODE.format(1))
    node = Node(tmp_path)
    try:
        end = time.monotonic() + LONG
        while not (tmp_path / "begun").exists():
            assert time.monotonic() < end
            time.sleep(0.02)
        node.write(CODE.format(22))
        (tmp_path / "go").touch()
        node.wait_for("rota: shop.py changed; starting again")
        node.wait_for(" is up", times=2)
        assert result(tmp_path) == "22"
    finally:
        os.killpg(node.process.pid, signal.SIGKILL)
        node.process.wait()


def test_files_of_the_app_are_watched_and_no_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "tasks.py").write_text("")
    before = reload.look("shop.tasks:app")
    assert tmp_path / "shop" / "tasks.py" in before
    assert not [path for path in before if "site-packages" in path.parts or path.is_relative_to(reload._OWN)]
    (tmp_path / "shop" / "new.py").write_text("")
    assert reload.changed(before, reload.look("shop.tasks:app")) == [tmp_path / "shop" / "new.py"]

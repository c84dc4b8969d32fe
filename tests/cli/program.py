"""The real `rota`, as a process of its own in a folder of its own."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw
import pytest

from rota.app import App
from rota.cli.main import main
from rota.model.job import Kind
from rota.model.node import NewNode
from rota.model.principal import SYSTEM
from rota.model.times import SECOND
from rota.store.base import Store

LATER = "0 3 * * *"  # a rule that does not fire while a test looks at it, but for once a day
LONG = 30.0  # seconds until a test that waits for an event gives up

APP = """
import sys, time
import rota

app = rota.App()

@app.task(retry=0)
def hello(name: str, times: int = 1) -> str:
    print(f"hello {name}")
    return " ".join([f"hello {name}"] * times)

@app.task(retry=0, timeout="1m")
async def boom(text: str = "no luck") -> None:
    raise ValueError(text)

@app.task(queue="elsewhere", priority=2, retry=rota.Retry(4, backoff="1s"))
async def far(anything: object = None) -> None: ...

@app.task
async def numbers() -> dict[str, list[int]]:
    return {"a": [1, 2]}

@app.task(retry=0)
def stuck(flag: str) -> None:
    open(flag, "w").close()
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass
"""


def environment(**more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ROTA_", "NO_COLOR", "COLUMNS"))}
    # Nodes of tests would fight for the port of the API.
    return clean | {"ROTA_KILL_GRACE": "500ms", "ROTA_ROLES": "control,worker", **more}


class Rota:
    """`rota(...)` runs a verb to its end, in a process of its own, and returns what it said. `here`, `ok`, `json` and
    `job` run verbs in this process, which is five times as fast: for arranging and for looking."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self, *words: str, stdin: str | None = None, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "rota", *words],
            cwd=self.folder, input=stdin, text=True, timeout=LONG, capture_output=True, env=environment(**(env or {})),
        )  # fmt: skip

    def here(self, *words: str) -> tuple[int, str]:
        body = io.BytesIO()
        out = io.TextIOWrapper(body, "utf-8", write_through=True)
        with (
            redirect_stdout(out), chdir(self.folder), patch.dict(os.environ, environment(), clear=True),
            patch.object(sys, "path", [*sys.path]),
        ):  # fmt: skip
            sys.modules.pop("shop", None)  # another test's app, of another folder
            code = main(words)
        return code, body.getvalue().decode().strip()

    def ok(self, *words: str) -> str:
        code, said = self.here(*words)
        assert code == 0, f"exit {code}: {said}"
        return said

    def json(self, *words: str) -> Any:
        return json.loads(self.ok("--json", *words))

    def job(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.json("job", "show", job_id)
        return found

    def start(self, *words: str, **env: str) -> Running:
        return Running(self.folder, words, environment(**env))

    def up(self, *words: str) -> Running:
        node = self.start("up", *words)
        node.read_until("is up")
        return node


class Running:
    """A verb that goes on: its stderr can be waited for, and it can be told to stop."""

    def __init__(self, folder: Path, words: tuple[str, ...], env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rota", *words], cwd=folder, env=env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.err = ""
        self.out = ""

    def read_until(self, text: str, stream: str = "err") -> str:
        """Waits until the text was written to that stream."""
        pipe = self.process.stderr if stream == "err" else self.process.stdout
        assert pipe is not None
        while text not in getattr(self, stream):
            ready, _, _ = select.select([pipe], [], [], LONG)
            assert ready, f"no {text!r} within {LONG}s, only: {getattr(self, stream)}"
            more = os.read(pipe.fileno(), 65536)
            assert more, f"it ended without {text!r}: {self.err}"
            setattr(self, stream, getattr(self, stream) + more.decode())
        found: str = getattr(self, stream)
        return found

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """Waits for its end; what was left in the pipes is kept."""
        out, err = self.process.communicate(timeout=LONG)
        self.out += (out or b"").decode()
        self.err += (err or b"").decode()
        return self.process.returncode

    def stop(self) -> int:
        if self.process.poll() is None:
            self.signal()
        return self.end()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def on_terminal(
    folder: Path,
    *words: str,
    answer: str = "",
    act: Callable[[str, int], None] | None = None,
    env: dict[str, str] | None = None,
) -> tuple[int, str]:
    """Runs a verb on a terminal of its own; returns its exit code and all that the terminal showed. `act` is called
    with what was shown so far and the pid, whenever there is more."""
    screen, keys = pty.openpty()
    full = environment(**{"TERM": "xterm-256color", "COLUMNS": "200", **(env or {})})
    command = [sys.executable, "-m", "rota", *words]
    process = subprocess.Popen(command, cwd=folder, env=full, stdin=keys, stdout=keys, stderr=keys)
    os.close(keys)
    if answer:
        os.write(screen, answer.encode())
    shown = b""
    while True:
        ready, _, _ = select.select([screen], [], [], LONG)
        assert ready, f"silence on the terminal after: {shown!r}"
        try:
            more = os.read(screen, 65536)
        except OSError:  # the other side is closed
            break
        if not more:
            break
        shown += more
        if act:
            act(shown.decode("utf-8", "replace"), process.pid)
    os.close(screen)
    return process.wait(LONG), shown.decode("utf-8", "replace")


def refused(rota: Rota, capsys: pytest.CaptureFixture[str], *words: str, code: int = 2) -> str:
    """Runs a verb in this process that must say one line on stderr, nothing else, and end with this code."""
    capsys.readouterr()
    try:
        ended, said = rota.here(*words)
    except SystemExit as leaving:
        ended, said = leaving.code, ""  # type: ignore[assignment]
    err = capsys.readouterr().err
    assert (ended, said) == (code, ""), err
    assert err.startswith("rota: ")
    assert err.count("\n") == 1
    assert "\x1b" not in err
    return err


def behind(rota: Rota, deed: Callable[[Store], Awaitable[Any]], store: str = "") -> Any:
    """Does something to the store that no verb does: what nodes do, but at a moment of our own."""

    async def act() -> Any:
        place = App(store or f"sqlite:///{rota.folder / 'rota.db'}")._core.make_store()
        try:
            await place.open()
            return await deed(place)
        finally:
            await place.close()

    return asyncio.run(act())


def claim(rota: Rota, count: int = 100, queue: str = "default", store: str = "") -> list[str]:
    """What the claim of a node takes. Those jobs run as far as anyone knows; those that may not were moved aside."""

    async def deed(place: Store) -> list[str]:
        name = f"claimer-{os.urandom(4).hex()}"
        await place.register(SYSTEM, NewNode(name, name, ("worker",), {queue: count}, "", 600 * SECOND), [])
        found = await place.claim(SYSTEM, name, {queue: count}, list(Kind), {queue: count})
        return [one.job_id for one in found]

    found: list[str] = behind(rota, deed, store)
    return found


def sql(rota: Rota, statement: str, *values: object) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(rota.folder / "rota.db"))
    connection.set_busy_timeout(10_000)
    try:
        return list(connection.execute(statement, values))
    finally:
        connection.close()

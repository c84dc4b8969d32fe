"""Real processes: started, looked at from outside, stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 300.0
UP = [sys.executable, "-m", "rota.cli.main", "up"]
APP = "bench.load:app"
POLL = 0.1  # rarely: what is looked at is being measured


def seconds_of(module: str, *arguments: object, store: Path | str, **settings: object) -> float:
    """Runs a module of the bench to its end; returns the number it prints."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, env=environment(store, **settings), cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return float(done.stdout)


@contextmanager
def node(store: Path, slots: int | None = None, app: str = APP, **settings: object) -> Iterator[int]:
    """`rota up` with the tasks of the bench; gives its pid once it has joined. Stops it in the end."""

    def joined() -> bool:
        return bool(ask(store, "SELECT count(*) FROM nodes WHERE state = 'live'"))

    with up(store, store.with_suffix(".log"), joined, slots, app, **settings) as pid:
        yield pid


@contextmanager
def up(
    store: Path | str, log: Path, joined: Callable[[], bool], slots: int | None, app: str = APP, **settings: object
) -> Iterator[int]:
    queues = [] if slots is None else ["--queues", f"default:{slots}"]
    command = [*UP, *(["--app", app] if app else []), *queues]
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, env=environment(store, **settings), cwd=ROOT, stderr=stderr)

    def alive_and_joined() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"rota up has ended:\n{log.read_text()}")
        return joined()

    try:
        until(alive_and_joined)
        yield process.pid
        process.send_signal(signal.SIGTERM)
        if process.wait(PATIENCE):
            raise RuntimeError(f"rota up has failed:\n{log.read_text()}")
    finally:
        process.kill()
        process.wait()


@contextmanager
def killed_at_last(command: list[str], store: str, log: Path) -> Iterator[None]:
    """A node whose work never ends: nobody waits for it."""
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, env=environment(store), cwd=ROOT, stderr=stderr)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def program(command: list[str], environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Some other server or worker, for the length of the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()


def environment(store: Path | str, **settings: object) -> dict[str, str]:
    """Ours, less what may be set for rota here: the figures are those of the defaults, but for `settings`."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
    given = {f"ROTA_{name.upper()}": str(value) for name, value in settings.items()}
    return ours | {"ROTA_STORE": f"sqlite:///{store}" if isinstance(store, Path) else store} | given


def ask(store: Path, query: str) -> int:
    """One number out of a store; 0 as long as there is none."""
    try:
        return int(rows(store, query)[0][0] or 0)
    except (apsw.CantOpenError, apsw.SQLError, apsw.BusyError):  # nobody has made the tables yet, or somebody is at it
        return 0


def rows(store: Path, query: str) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def until(condition: Callable[[], bool], patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {patience:g} s: {condition.__qualname__}")
        time.sleep(POLL)


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def cpu_seconds(pids: list[int]) -> float:
    """What they have used so far, in user and in kernel mode."""
    ticks = 0
    for pid in pids:
        # The name of the program stands in brackets and may hold blanks; the fields count from behind it.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def pss_bytes(pid: int) -> int:
    """Its memory; what it shares with others counts by its share."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except PermissionError:
        raise SystemExit("processes of rota hide their memory from others of their user: measure it as root") from None
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def peak_bytes(pid: int) -> int:
    """The most memory that it ever had at once."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))

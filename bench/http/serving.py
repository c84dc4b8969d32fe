"""A node with the API and its floor as real processes, a key for the API, and requests as bytes."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench import processes
from bench.http.callers import Answers

ROTA = [sys.executable, "-m", "rota.cli.main"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@contextmanager
def api(
    store: Path, slots: int | None = None, app: str = processes.APP, **settings: object
) -> Iterator[tuple[int, int]]:
    """`rota up` with the API; gives its pid and its port."""
    port = free_port()
    with processes.node(store, slots, app, api_port=port, **settings) as pid:
        processes.until(lambda: listens(port))
        yield pid, port


@contextmanager
def bare(log: Path) -> Iterator[int]:
    """The floor; gives its port."""
    port = free_port()
    command = [sys.executable, "-m", "bench.http.bare", str(port)]
    with processes.program(command, processes.environment("sqlite:///:memory:"), log):
        processes.until(lambda: listens(port))
        yield port


def new_key(store: Path | str, *options: str, role: str = "admin") -> str:
    """A key for the user of the bench, made with the store's address."""
    command = [*ROTA, "key", "add", "--user", "local", "--role", role, "--json", *options]
    environment = processes.environment(store)
    done = subprocess.run(command, env=environment, cwd=processes.ROOT, check=True, stdout=subprocess.PIPE)
    return str(msgspec.json.decode(done.stdout)["secret"])


def request(method: str, path: str, key: str = "", body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    if key:
        lines.append(f"Authorization: Bearer {key}")
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def call(port: int, callers: int, seconds: float, *sent: bytes) -> Answers:
    """The callers are a process of their own. The requests are dealt out to them."""
    command = [sys.executable, "-m", "bench.http.callers", str(port), str(callers), str(seconds)]
    done = subprocess.run(command, cwd=processes.ROOT, check=True, input=b"\0".join(sent), stdout=subprocess.PIPE)
    answers = msgspec.json.decode(done.stdout, type=Answers)
    if answers.refused:
        raise RuntimeError(f"the server refused a request: {answers.refused}")
    return answers

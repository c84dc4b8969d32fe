"""The environment in which the peers live."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from bench.processes import ROOT

HOME = ROOT / ".venv-peers"
PYTHON = HOME / "bin" / "python"
WANTED = Path(__file__).with_name("requirements.txt")
# What was installed: set last, so that an interrupted set-up starts anew.
READY = HOME / "ready.txt"


def set_up() -> bool:
    """Whether the peers are there. If they can't be installed, a line says what was tried: rota is measured without."""
    wanted = WANTED.read_text()
    if READY.exists() and READY.read_text() == wanted:
        return True
    print("installing the peers ...", file=sys.stderr)
    install = [str(PYTHON), "-m", "pip", "install", "-qq", "-r", str(WANTED)]
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", HOME], check=True)
        (HOME / ".gitignore").write_text("*\n")
        subprocess.run(install, check=True, stdout=sys.stderr)
    except subprocess.CalledProcessError:
        print(f"nothing is compared with the peers: this must work first: {shlex.join(install)}", file=sys.stderr)
        return False
    READY.write_text(wanted)
    return True


def answer(module: str, *arguments: object, address: str) -> float:
    """Runs a module of the bench there; returns the number it prints."""
    command = [str(PYTHON), "-m", f"bench.peers.{module}", *map(str, arguments)]
    done = subprocess.run(command, env=environment(address), cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return float(done.stdout)


def environment(address: str) -> dict[str, str]:
    """Ours; but a worker that forks for every job and imports its function each time must not compile it as often."""
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return ours | {"BENCH_ADDRESS": address}

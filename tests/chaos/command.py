"""The command jobs: `python -IS command.py NUMBER SECONDS [shadow]`, with its witness file in the environment."""

from __future__ import annotations

import os
import sys
import time

sys.path.insert(0, os.environ["CHAOS_ROOT"])

from tests.chaos.witness import ALIVE, END, START, Pen, cast_shadow, slices


def node() -> str:
    """The node above this command, by the environment that its keeper has from it."""
    pid = os.getppid()
    while pid > 1:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - every import costs
            for variable in file.read().split(b"\0"):
                if variable.startswith(b"CHAOS_NODE="):
                    return variable[11:].decode()
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            pid = int(file.read().rpartition(b")")[2].split()[1])
    return "?"


def main() -> None:
    number, seconds = int(sys.argv[1]), float(sys.argv[2])
    who = os.environ["ROTA_JOB"], int(os.environ["ROTA_FENCE"]), number, node()
    witness = Pen(*who)
    witness.note(START)
    if sys.argv[3:]:
        cast_shadow(*who)
    for slice in slices(seconds):
        time.sleep(slice)
        witness.note(ALIVE)
    witness.note(END)


if __name__ == "__main__":
    main()

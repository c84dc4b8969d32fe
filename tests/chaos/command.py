"""The command jobs: `python -IS command.py NUMBER SECONDS [shadow]`. The environment names witness file and node."""

from __future__ import annotations

import os
import sys
import time

sys.path.insert(0, os.environ["CHAOS_ROOT"])

from tests.chaos.witness import ALIVE, END, START, Pen, cast_shadow, slices


def main() -> None:
    number, seconds = int(sys.argv[1]), float(sys.argv[2])
    who = os.environ["ROTA_JOB"], int(os.environ["ROTA_FENCE"]), number, os.environ["CHAOS_NODE"]
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

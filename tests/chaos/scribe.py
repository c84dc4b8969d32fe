"""The command jobs of runs about output: `python -IS scribe.py NUMBER SECONDS FLOODS`.

They write numbered lines of one length and note outside of rota, after each write, how many bytes that stream has by
then. A job that floods writes to stdout alone: what is cut is then a range of one stream.
"""

from __future__ import annotations

import os
import sys
import time

sys.path.insert(0, os.environ["CHAOS_ROOT"])

from tests.chaos.scribbles import Desk
from tests.chaos.witness import END, START, Pen


def main() -> None:
    number, seconds, floods = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "True"
    job, fence = os.environ["ROTA_JOB"], int(os.environ["ROTA_FENCE"])
    desk = Desk(Pen(job, fence, number, os.environ["CHAOS_NODE"]), job, fence, floods)
    desk.pen.note(START)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for place, (stream, body) in enumerate(desk.next(), 1):
            os.write(place, body)
            desk.wrote(stream)
        time.sleep(desk.pause())
    desk.pen.note(END)


if __name__ == "__main__":
    main()

"""The command jobs of runs about output: `python -IS scribe.py NUMBER SECONDS FLOODS`.

They write numbered lines of one length and note outside of rota, after each write, how many bytes that stream has by
then. A job that floods writes to stdout alone: what is cut is then a range of one stream.
"""

from __future__ import annotations

import os
import sys
import time

sys.path.insert(0, os.environ["CHAOS_ROOT"])

from tests.chaos.scribbles import AT_ONCE, STREAMS, lines, note_of
from tests.chaos.witness import ALIVE, END, START, TICK, Pen

PAUSE = 0.004


def main() -> None:
    number, seconds, floods = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "True"
    job, fence = os.environ["ROTA_JOB"], int(os.environ["ROTA_FENCE"])
    streams = STREAMS[:1] if floods else STREAMS
    notes = {stream: os.open(note_of(job, fence, stream), os.O_WRONLY | os.O_CREAT, 0o666) for stream in streams}
    witness, end, said, spoke = Pen(job, fence, number, os.environ["CHAOS_NODE"]), time.monotonic() + seconds, 0, 0.0
    witness.note(START)
    while (now := time.monotonic()) < end:
        if now > spoke + TICK:
            witness.note(ALIVE)
            spoke = now
        for place, stream in enumerate(streams, 1):
            os.write(place, lines(stream, said, AT_ONCE))
            os.pwrite(notes[stream], b"%20d" % (said + AT_ONCE), 0)
        said += AT_ONCE
        time.sleep(0.0 if floods and said % (64 * AT_ONCE) else PAUSE)
    witness.note(END)


if __name__ == "__main__":
    main()

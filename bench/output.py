"""What a job that writes 100 MB/s costs the others: a drain beside it, against a drain beside one that sleeps.

`python -m bench.output PATH` is that job: it notes in the file how many megabytes a second it got rid of.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench import processes, raw
from bench.figure import Figure, Size
from rota.clients.jobs import LARGEST_ORDER
from rota.model.times import SECOND
from rota.work.worker import LARGEST_CLAIM

RATE = 100_000_000  # bytes a second
AT_ONCE = 64 << 10
QUEUE = "loud"


def flood(folder: Path, size: Size) -> Iterator[Figure]:
    ratios: list[float] = []
    rates: list[tuple[float, float]] = []
    said: list[float] = []
    for run in range(size.runs):
        note = folder / f"said-{run}"
        loud = _drain(folder / f"loud-{run}.db", size.jobs, [sys.executable, "-m", "bench.output", str(note)])
        quiet = _drain(folder / f"quiet-{run}.db", size.jobs, ["sleep", "1000"])
        ratios.append(loud / quiet)
        rates.append((loud, quiet))
        said.append(float(note.read_text()))
    loud, quiet = (statistics.median(side) for side in zip(*rates, strict=True))
    yield Figure(
        f"drain of {size.jobs:,} beside {statistics.median(said):.0f} MB/s of output, against beside a sleep",
        statistics.median(ratios), "x", least=0.9, runs=ratios, ours=f"{loud:,.0f}/s", other=f"{quiet:,.0f}/s",
    )  # fmt: skip


def _drain(store: Path, jobs: int, command: list[str]) -> float:
    connection = raw.create(str(store))
    raw.insert(connection, jobs, LARGEST_ORDER)
    connection.close()
    submit = [sys.executable, "-m", "rota.cli.main", "submit", "--queue", QUEUE, "--cwd", str(processes.ROOT), "--"]
    subprocess.run([*submit, *command], env=processes.environment(store), check=True, stdout=subprocess.PIPE)
    waiting = f"SELECT EXISTS (SELECT 1 FROM jobs WHERE state IN ('ready', 'running') AND queue != '{QUEUE}')"
    log = store.with_suffix(".log")
    up = [*processes.UP, "--app", processes.APP, "--queues", f"default:{2 * LARGEST_CLAIM},{QUEUE}:1"]
    with processes.killed_at_last(up, f"sqlite:///{store}", log):
        processes.until(lambda: not processes.ask(store, waiting))
    return jobs * SECOND / processes.ask(store, "SELECT max(finished_at) - min(started_at) FROM attempts")


def main(path: str) -> None:
    """As fast as told, in pieces as programs write them; late ones are made up for."""
    line = b"x" * 99 + b"\n"
    body = (line * (AT_ONCE // len(line) + 1))[:AT_ONCE]
    begun = noted = time.monotonic()
    written = 0
    while True:
        written += os.write(1, body)
        now = time.monotonic()
        if now - noted > 0.2:
            noted = now
            Path(path).write_text(str(written / (now - begun) / 1e6))
        if (early := begun + written / RATE - now) > 0.001:
            time.sleep(early)


if __name__ == "__main__":
    main(sys.argv[1])

"""`python -m tests.sim --seeds 1000`: runs seeds on all cores and says what was found."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial

from tests.sim import mutants, plan
from tests.sim.checker import explain
from tests.sim.world import run

FAULTS = {
    "crash": "crashes",
    "pause": "pauses",
    "executor": "executors struck",
    "outage": "outages",
    "stop": "orderly stops",
    "jump": "clock jumps",
    "partition": "partitions",
    "session": "lost sessions",
    "restart": "restarts of the server",
    "behead": "leaders struck",
}


@dataclass
class Result:
    seconds: float
    jobs: int
    faults: dict[str, int]
    complaint: str | None


def _run(seed: int, nodes: int, hot: int | None, mutant: str | None) -> Result:
    report = run(plan.make(seed, nodes, hot), mutant)
    complaint = explain(report.plan, report.violations[0], report.notes, mutant) if report.violations else None
    return Result(report.seconds, report.jobs, report.faults, complaint)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--nodes", type=int, default=2, help="nodes in the cluster")
    parser.add_argument("--hot", type=int, help="servers of the hot tier in all seeds; default: as the seed says")
    parser.add_argument("--mutant", choices=mutants.NAMES, help="switch one safeguard off")
    parser.add_argument("--trace", action="store_true", help="print everything that happens (one seed at a time)")
    parser.add_argument("--processes", type=int, default=None, help="default: one per core")
    return parser.parse_args()


def _trace(seed: int, nodes: int, hot: int | None, mutant: str | None) -> int:
    report = run(plan.make(seed, nodes, hot), mutant)
    for note in report.notes:
        print(note)
    for violation in report.violations:
        print(f"VIOLATED {violation.invariant}: {violation.text} ({violation.job} at {violation.at:.6f})")
    return 1 if report.violations else 0


def main() -> int:
    given = _arguments()
    seeds = range(given.first, given.first + given.seeds)
    if given.trace:
        return max(_trace(seed, given.nodes, given.hot, given.mutant) for seed in seeds)
    begun, bad = time.monotonic(), 0
    totals: Counter[str] = Counter()
    with multiprocessing.Pool(given.processes) as pool:
        for result in pool.imap(
            partial(_run, nodes=given.nodes, hot=given.hot, mutant=given.mutant), seeds, chunksize=4
        ):
            totals.update(result.faults, seconds=round(result.seconds), jobs=result.jobs)
            if result.complaint:
                bad += 1
                print(result.complaint, flush=True)
    _summary(given.seeds, bad, totals, time.monotonic() - begun)
    return 1 if bad else 0


def _summary(seeds: int, bad: int, totals: Counter[str], took: float) -> None:
    faults = ", ".join(f"{totals[kind]} {name}" for kind, name in FAULTS.items())
    print(
        f"{seeds} seeds in {took:.1f} s ({seeds / took:.1f}/s): {totals['seconds'] / 3600:.1f} virtual hours, "
        f"{totals['jobs']} jobs, {faults}; {bad or 'no'} seed{'s' if bad > 1 else ''} with a violation"
    )


if __name__ == "__main__":
    sys.exit(main())

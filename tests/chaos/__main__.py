"""`python -m tests.chaos`: breaks real nodes and a real store, and says what that did to the jobs."""

from __future__ import annotations

import argparse
import json
import sys
import time

from tests.chaos import report
from tests.chaos.play import play
from tests.chaos.scenario import POSTGRES, SQLITE
from tests.chaos.scenarios import (
    away,
    backend_kills,
    controller,
    executors,
    failover,
    far,
    hot,
    leader_kill,
    limits,
    output,
    pause,
    pool_full,
    rates,
    restart,
    rolling,
    schedules,
    session_lost,
    worker_kill,
    workflows,
)

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        *(
            module.SCENARIO
            for module in (
                worker_kill,
                pause,
                leader_kill,
                restart,
                backend_kills,
                pool_full,
                away,
                failover,
                session_lost,
                rolling,
                schedules,
                limits,
                rates,
                workflows,
                executors,
                controller,
                far,
                output,
            )
        ),
        hot.HOT,
        hot.HOT_3,
    )
}
# What `make chaos` plays unless it is told otherwise.
USUAL = (
    "worker-kill", "pause", "leader-kill", "restart", "backend-kills", "schedules", "limits", "rates", "workflows",
    "executors", "controller", "far-workers", "output", "hot", "hot-3",
)  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="scenario", help=f"of {', '.join(SCENARIOS)}")
    parser.add_argument("--all", action="store_true", help="all of them; without names those of `make chaos`")
    parser.add_argument("--quick", action="store_true", help="fewer faults each")
    parser.add_argument("--store", choices=(POSTGRES, SQLITE), help="default: each that the scenario can be played on")
    parser.add_argument("--seconds", type=float, help="how long faults go on in each")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--keep", action="store_true", help="keep logs, witness and database of good runs too")
    given = parser.parse_args()
    if unknown := set(given.names) - set(SCENARIOS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(SCENARIOS)}")
    return given


def main() -> int:
    given = _arguments()
    names = list(SCENARIOS) if given.all else given.names or list(USUAL)
    reports: list[report.Report] = []
    began = time.monotonic()
    if not given.json:
        print(report.line(report.COLUMNS), flush=True)
    for name in names:
        scenario = SCENARIOS[name]
        seconds = given.seconds or (scenario.quick if given.quick else scenario.seconds)
        for store in scenario.stores:
            if given.store in (None, store):
                reports.append(play(scenario, seconds, given.keep, store))
                if not given.json:
                    print(report.line(reports[-1].cells()), *report.details(reports[-1]), sep="\n", flush=True)
    bad = [each.name for each in reports if each.faults]
    if given.json:
        print(json.dumps([each.as_json() for each in reports], indent=2))
    else:
        print(f"{len(reports)} scenarios in {time.monotonic() - began:.0f} s; {', '.join(bad) or 'none'} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

"""One line per scenario, and whether it is good enough."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.chaos import checker, crash_checker, far_checker, fire_checker, graph_checker, key_checker, output_checker
from tests.chaos.checker import EXCUSED, Finding, accepted, ended
from tests.chaos.evidence import Evidence
from tests.chaos.figures import percentile
from tests.chaos.scenario import POSTGRES, Scenario
from tests.checks.breach import DOUBLE, DOUBLED, LOST, MISSED, OVERLAP

COLUMNS = ("scenario", "accepted", "ended", "lost", "double", "overlaps", "n", "p50", "p99", "max", "goal", "verdict")
BAD = (
    *checker.BAD, *fire_checker.BAD, *key_checker.BAD, *graph_checker.BAD, *crash_checker.BAD, *far_checker.BAD,
    *output_checker.BAD,
)  # fmt: skip
WIDTHS = (17, 8, 7, 4, 6, 8, 4, 6, 6, 6, 64, 7)


@dataclass
class Report:
    scenario: Scenario
    evidence: Evidence
    findings: list[Finding]
    figures: list[float]
    missed: list[str]
    took: float
    store: str = POSTGRES

    @property
    def name(self) -> str:
        return self.scenario.name if self.store == POSTGRES else f"{self.scenario.name}/{self.store}"

    @property
    def counts(self) -> Counter[str]:
        return Counter(finding.kind for finding in self.findings)

    @property
    def faults(self) -> list[str]:
        """Why it is not good enough."""
        counts = self.counts
        found = [f"{counts[kind]} {kind}" for kind in BAD if counts[kind]]
        if not self.figures:
            found.append("nothing was measured")
        elif not percentile(self.figures, self.scenario.part) <= self.scenario.limit:
            found.append("goal missed")
        return found + self.missed

    def cells(self) -> list[str]:
        counts, figures = self.counts, self.figures
        overlaps = f"{counts[OVERLAP]}" + (f"+{counts[EXCUSED]}" if counts[EXCUSED] else "")
        goal = f"{self.scenario.goal} <= {self.scenario.limit:g} s"
        return [
            self.name, str(_wanted(self.evidence)), str(ended(self.evidence)),
            str(counts[LOST] + counts[MISSED]), str(counts[DOUBLE] + counts[DOUBLED]),
            overlaps, str(len(figures)), _seconds(percentile(figures, 0.5)),
            _seconds(percentile(figures, 0.99)), _seconds(percentile(figures, 1.0)), goal,
            "ok" if not self.faults else "FAILED",
        ]  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        return {
            "scenario": self.name,
            "accepted": _wanted(self.evidence),
            "ended": ended(self.evidence),
            "findings": dict(self.counts),
            "figures": [round(figure, 3) if math.isfinite(figure) else None for figure in self.figures],
            "goal": self.scenario.goal,
            "limit": self.scenario.limit,
            "bad": self.faults,
            "notes": self.evidence.notes,
            "seconds": round(self.took, 1),
        }


def make(scenario: Scenario, evidence: Evidence, took: float, store: str = POSTGRES) -> Report:
    evidence.exits = [exit for exit in evidence.exits if not scenario.may_exit(evidence, exit)]
    findings = scenario.check(evidence, lambda old, new: scenario.excused(evidence, old, new))
    return Report(scenario, evidence, findings, scenario.measure(evidence), scenario.missed(evidence), took, store)


def _wanted(evidence: Evidence) -> int:
    return accepted(evidence) + fire_checker.fires_due(evidence.fires)


def line(cells: list[str] | tuple[str, ...]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()


def details(report: Report, most: int = 5) -> list[str]:
    """The first few of each kind, for whoever has to find out why."""
    found: list[str] = [f"    {note}" for note in report.evidence.notes]
    for kind, count in sorted(report.counts.items()):
        examples = [finding for finding in report.findings if finding.kind == kind][: most if kind in BAD else 1]
        found.append(f"    {count} x {kind}")
        found += [f"        order {one.number}: {one.text}" for one in examples]
    if report.faults:
        found.append(f"    FAILED: {', '.join(report.faults)}")
    return found


def _seconds(value: float) -> str:
    return "-" if math.isnan(value) else "never" if math.isinf(value) else f"{value:.2f}"

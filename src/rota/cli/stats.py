"""`rota stats`: counts, rates and latencies of jobs, by queue, and their course over a window."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rota.cli.session import existing
from rota.cli.show import Cell, age, document, facts, table
from rota.model.statistics import History, Latency, Pace, QueueStatistics, Statistics, window
from rota.model.times import SECOND

_BARS = "▁▂▃▄▅▆▇█"
WIDEST = 120


async def stats_(args: argparse.Namespace) -> int:
    asked = window(args.since, args.step, args.queue, args.task, args.mine)
    async with existing(args) as client:
        found = await client.store.statistics(client.who, window(args.since, None, asked.queue, asked.task, asked.own))
        history = await client.store.history(client.who, asked)
    if args.json:
        document({"statistics": found, "history": history})
        return 0
    table(_HEADERS, [*map(_row, found.queues), *([_total(found)] if len(found.queues) != 1 else [])])
    print()
    facts(_course(history))
    return 0


_HEADERS = (
    "QUEUE", "READY", "RUNNING", "HELD", "SCHEDULED", "BLOCKED", "OLDEST", "ORDERED", "ENDED", "FAILED",
    "WAIT P50", "P95", "P99", "RUN P50", "P95", "P99",
)  # fmt: skip


def _row(one: QueueStatistics) -> tuple[Cell, ...]:
    oldest = "" if one.oldest_age is None else age(round(one.oldest_age * SECOND))
    return one.queue, *_cells(one, oldest)


def _total(found: Statistics) -> tuple[Cell, ...]:
    return ("all", *_cells(found, "")) if found.queues else ("none", *_cells(found, ""))


def _cells(one: QueueStatistics | Statistics, oldest: str) -> tuple[Cell, ...]:
    states, rates = one.states, one.rates
    live = (states.ready, states.running, states.held, states.scheduled, states.blocked)
    counted = tuple(map(_pace, (rates.ordered, rates.ended, rates.failed)))
    return *map(str, live), oldest, *counted, *_times(one.wait), *_times(one.run)


def _pace(rate: Pace) -> str:
    """So many a minute or an hour."""
    if not rate.count:
        return "0"
    return f"{rate.per_minute:,.1f}/m" if rate.per_minute >= 1 else f"{rate.per_hour:,.1f}/h"


def _times(latency: Latency) -> tuple[str, str, str]:
    return _seconds(latency.p50), _seconds(latency.p95), _seconds(latency.p99)


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    if value < 1:
        return f"{value * 1000:.3g}ms"
    return f"{value:.3g}s" if value < 120 else age(round(value * SECOND))


def _course(history: History) -> list[tuple[str, Cell]]:
    kept = history.buckets[-WIDEST:]
    lines: list[tuple[str, Cell]] = [("jobs of", "all users" if history.everyone else "one user")]
    lines.append(("since", f"{kept[0].since:%Y-%m-%d %H:%M}Z, {age(round(history.step * SECOND))} each"))
    for name, style in (("ordered", ""), ("succeeded", "green"), ("failed", "red"), ("cancelled", "yellow")):
        values = [getattr(one, name) for one in kept]
        lines.append((name, (f"{sparkline(values)}  {sum(values):,}", style)))
    for name, what in (("wait p95", "wait_p95"), ("run p95", "run_p95")):
        times = [getattr(one, what) or 0.0 for one in kept]
        lines.append((name, f"{sparkline(times)}  at most {_seconds(max(times))}" if any(times) else ""))
    return lines


def sparkline(values: Sequence[float]) -> str:
    """A character per value; 0 is a space."""
    most = max(values, default=0)
    top = len(_BARS) - 1
    return "".join(" " if not value else _BARS[min(top, int(value / most * top + 0.5))] for value in values)

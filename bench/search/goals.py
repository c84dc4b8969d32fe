"""What rota has to reach on the corpus. Rivals are shown beside these goals, but needn't reach them."""

from __future__ import annotations

from bench.figure import Figure

INGEST = {"SQLite": 100_000.0, "PostgreSQL": 50_000.0}  # lines a second, at least
SIZE = 20.0  # percent of the raw lines, at most
RARE_WORD, FIRST_PAGE, EXPRESSION, PHRASE = (
    "rare word",
    "common word, newest 100",
    "expression, one task and hour",
    "phrase",
)
# Milliseconds at most, in 10,000,000 lines. A phrase has no goal of its own.
MILLISECONDS = {RARE_WORD: 1_000.0, FIRST_PAGE: 200.0, EXPRESSION: 2_000.0}
JOB_LIST = 200.0  # ms at the 95th percentile: the first page of 10,000,000 finished jobs
DRAIN = 0.8  # of other jobs beside ingest, against without


def beside(name: str, value: float, unit: str, goal: str, ours: str = "", runs: list[float] | None = None) -> Figure:
    """A figure of a rival."""
    return Figure(name, value, unit, ours=ours, other=goal and f"rota's goal {goal}", runs=runs or [])

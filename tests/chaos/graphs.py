"""Random workflows, as the client plans them and the checker reads them: who waits for whom, and who fails."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.checks.graphs import FAILURE, FINE, FINISH, SUCCESS, TROUBLE

PLAN = "plan"
# Mostly short, so that parents end in the same moment on two nodes; some long enough to be hit.
DURATIONS = (0.0, 0.0, 0.05, 0.1, 0.1, 0.3, 0.8)
FAILING = 0.12


@dataclass(frozen=True)
class Step:
    number: int
    parents: tuple[tuple[int, str], ...] = ()
    fails: bool = False
    seconds: float = 0.0


def plan(first: int, known: Sequence[int]) -> list[Step]:
    """One workflow, its jobs numbered from there on. `known` are jobs of earlier ones, which it may wait for too."""
    shape = random.choice((fan_out, fan_in, chain, tangle))
    steps = shape(first)
    if known and random.random() < 0.5:
        # Somebody else's job, which perhaps ends at this very moment.
        steps[0] = _step(first, [(random.choice(known[-20:]), FINISH)])
    return steps


def fan_out(first: int) -> list[Step]:
    return [_step(first), *(_step(first + n, [(first, _need())]) for n in range(1, random.randint(5, 25)))]


def fan_in(first: int) -> list[Step]:
    width, need = random.randint(5, 25), _need()
    # Of many that must succeed one usually fails, so mostly it is enough that they end.
    edges = [(first + n, need if random.random() < 0.1 else FINISH) for n in range(width)]
    return [*(_step(first + n) for n in range(width)), _step(first + width, edges)]


def chain(first: int) -> list[Step]:
    return [_step(first), *(_step(first + n, [(first + n - 1, _need())]) for n in range(1, random.randint(3, 12)))]


def tangle(first: int) -> list[Step]:
    """Each waits for up to four of those before it."""
    steps = [_step(first)]
    for number in range(first + 1, first + random.randint(6, 25)):
        parents = random.sample(range(first, number), min(random.randint(0, 4), number - first))
        steps.append(_step(number, [(parent, _need()) for parent in parents]))
    return steps


def _need() -> str:
    return random.choice((SUCCESS, SUCCESS, SUCCESS, FINISH, FINISH, FAILURE, FINE, TROUBLE))


def _step(number: int, parents: Sequence[tuple[int, str]] = ()) -> Step:
    return Step(number, tuple(parents), random.random() < FAILING, random.choice(DURATIONS))


def write(steps: Iterable[Step]) -> str:
    return "".join(json.dumps(asdict(step)) + "\n" for step in steps)


def read(lines: Iterable[str]) -> dict[int, Step]:
    entries = [json.loads(line) for line in lines]
    return {
        entry["number"]: Step(**{**entry, "parents": tuple((number, need) for number, need in entry["parents"])})
        for entry in entries
    }


def read_file(folder: Path) -> dict[int, Step]:
    path = folder / PLAN
    return read(path.read_text().splitlines()) if path.exists() else {}

"""Compares two trees: `python -m bench.compare OTHER_TREE drain pg-drain --turns 3`.

Both trees measure in turns, each with its own environment, so that a busy minute of the machine disturbs both alike.
The ratio of a figure is above 1 where this tree is better: more where the goal is "at least", less where it is "at
most". Figures without a goal are shown without a ratio.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.figure import Figure

HERE = Path(__file__).parent.parent
PYTHON = Path(".venv/bin/python")
ACCEPTED = 0.95


def main() -> None:
    given = _arguments()
    for measure in given.only:
        seen: dict[Path, dict[str, list[Figure]]] = {HERE: {}, given.other: {}}
        for _ in range(given.turns):
            for tree, figures in seen.items():
                for figure in _measured(tree, measure, given.options):
                    figures.setdefault(figure.name, []).append(figure)
        for name in seen[HERE]:
            print(_line(name, seen[given.other].get(name, []), seen[HERE][name]), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("other", type=Path, help="the other tree, with an environment of its own in .venv")
    parser.add_argument("only", nargs="+", help="what to measure, as `python -m bench` calls it")
    parser.add_argument("--turns", type=int, default=3, help="how often the trees take turns (3)")
    parser.add_argument(
        "--option", action="append", default=[], dest="options", help="for bench, such as --option=--quick"
    )
    return parser.parse_args()


def _measured(tree: Path, measure: str, options: Sequence[str]) -> list[Figure]:
    command = [str(tree / PYTHON), "-m", "bench", measure, "--json", *options]
    done = subprocess.run(command, cwd=tree, capture_output=True, check=False)
    if done.returncode:
        print(f"{measure} failed in {tree.name}: {done.stderr.decode().splitlines()[-1]}", file=sys.stderr)
        return []
    rows: list[Mapping[str, Any]] = msgspec.json.decode(done.stdout)["figures"]
    return [msgspec.convert({name: row[name] for name in row if name != "met"}, Figure) for row in rows]


def _line(name: str, before: Sequence[Figure], after: Sequence[Figure]) -> str:
    if not before:
        return f"{name:72} only in this tree"
    old, new = (statistics.median(figure.value for figure in figures) for figures in (before, after))
    shown = f"{old:10.2f} -> {new:10.2f} {after[0].unit:8}"
    if after[0].met is None or not old or not new:
        return f"{name:72} {shown}"
    ratio = new / old if after[0].least is not None else old / new
    return f"{name:72} {shown} {ratio:6.2f}x  {'ok' if ratio >= ACCEPTED else 'SLOWER'}"


if __name__ == "__main__":
    main()

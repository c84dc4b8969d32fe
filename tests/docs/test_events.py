"""docs/events.md names every kind of event that stores write, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from rota.model.lifecycle import TERMINAL

ROOT = Path(__file__).parents[2]
_KIND = r"(?:job|schedule|calendar|gate|limit|queue|node|watch)\.[a-z_]+"
_NAMED = re.compile(rf"""["']({_KIND})["']""")
_CHANGED = re.compile(r'_changed\(unit, who, [\w.]+, "(\w+)"')
_ROW = re.compile(r"^\| (`[^|]*) \|", re.MULTILINE)


def written() -> set[str]:
    store = ROOT / "src" / "rota" / "store"
    # The files right in store/ are the contract: they name parameters in the same way.
    files = [path for path in store.rglob("*") if path.suffix in (".py", ".sql") and path.parent != store]
    texts = [path.read_text("utf-8") for path in files]
    texts.append((ROOT / "src/rota/model/events.py").read_text("utf-8"))
    plain = {kind for text in texts for kind in _NAMED.findall(text)}
    changes = {f"schedule.{how}" for text in texts for how in _CHANGED.findall(text)}
    return plain | changes | {f"job.{state.value}" for state in TERMINAL}


def documented() -> set[str]:
    table = (ROOT / "docs/events.md").read_text("utf-8").partition("| Kind |")[2].partition("\n\n")[0]
    return {kind for row in _ROW.findall(table) for kind in re.findall(rf"`({_KIND})`", row)}


def test_all_kinds_are_documented() -> None:
    assert documented() == written()

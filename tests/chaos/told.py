"""What the client was told about each of its orders. It notes an order before it asks, so that none is forgotten."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ASKED, OK, REFUSED, UNKNOWN, HUNG = "asked", "ok", "refused", "unknown", "hung"


@dataclass
class Order:
    number: int
    kind: str
    keyed: bool
    due: float | None  # by the wall clock; None: at once
    asked_at: float  # monotonic
    answers: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)  # more than one is a broken promise
    why: str = ""  # of the last answer that was not ok

    @property
    def verdict(self) -> str:
        """Ok once is ok for ever; refused counts only if no try is in doubt."""
        if OK in self.answers:
            return OK
        if self.answers and set(self.answers) == {REFUSED}:
            return REFUSED
        return UNKNOWN


class Book:
    """Lines of JSON, each written whole."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def write(self, **entry: Any) -> None:
        self._file.write(json.dumps(entry).encode() + b"\n")


def read(path: Path) -> dict[int, Order]:
    orders: dict[int, Order] = {}
    for text in path.read_text().splitlines() if path.exists() else ():
        entry = json.loads(text)
        number = entry["number"]
        if entry["word"] == ASKED:
            if number not in orders:
                orders[number] = Order(number, entry["kind"], entry["keyed"], entry["due"], entry["at"])
            continue
        orders[number].answers.append(entry["word"])
        if entry["word"] == OK:
            orders[number].ids.add(entry["id"])
        else:
            orders[number].why = entry["why"]
    return orders

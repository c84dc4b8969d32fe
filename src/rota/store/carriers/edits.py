"""Edits that name the version which they replace."""

from __future__ import annotations

from rota.errors import ChangedMeanwhile
from rota.store.carriers.unit import Unit


async def begin_edit(unit: Unit, what: str, owner: str, name: str) -> None:
    """Until the unit is committed no other edit of the same thing begins, also if it is not there yet."""
    await unit.begin()
    await unit.value("hold_edit", what=what, owner=owner, name=name)


def check_version(what: str, name: str, expected: str | None, found: str) -> None:
    if expected not in (None, found):
        raise ChangedMeanwhile(what, name)

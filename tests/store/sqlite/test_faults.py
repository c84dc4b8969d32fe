"""Errors of every kind that SQLite has, at every write of an attempt: its end and its output stay what they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from rota.errors import InvalidInput, RotaError, StoreDenied, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from rota.model.lifecycle import State
from rota.store.sqlite.database import Database, translated
from tests.contracts.attempts import SAID, perform, said
from tests.contracts.world import World

_NO_ERRORS = (apsw.SQLITE_OK, apsw.SQLITE_ROW, apsw.SQLITE_DONE)
CODES = sorted({code for code in apsw.mapping_result_codes.values() if isinstance(code, int)} - set(_NO_ERRORS))


async def test_an_end_and_an_output_stay_what_they_were(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.refusals.FIRST_PAUSE", 0.0)
    actor = await world.node()
    job = await world.one()
    claimed = await actor.claim(1)
    real, left = Database.write, [code for code in CODES for _ in range(3)]

    def troubled(db: Database, work: Callable[[Database], Any]) -> Any:
        if left:
            with translated(db.path):
                raise apsw.exception_for(left.pop(0))
        return real(db, work)

    monkeypatch.setattr(Database, "write", troubled)
    await perform(world.store, claimed)
    assert not left
    assert await world.state(job) is State.SUCCEEDED
    assert await said(world.store, job) == SAID


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (apsw.SQLITE_CONSTRAINT_CHECK, InvalidInput),
        (apsw.SQLITE_CONSTRAINT_NOTNULL, InvalidInput),
        (apsw.SQLITE_TOOBIG, InvalidInput),
        (apsw.SQLITE_CONSTRAINT_UNIQUE, StoreError),
        (apsw.SQLITE_CONSTRAINT_FOREIGNKEY, StoreError),
        (apsw.SQLITE_CORRUPT, StoreError),
        (apsw.SQLITE_CORRUPT_INDEX, StoreError),
        (apsw.SQLITE_AUTH, StoreDenied),
        (apsw.SQLITE_PERM, StoreDenied),
        (apsw.SQLITE_NOMEM, StoreUnavailable),
        (apsw.SQLITE_IOERR_FSYNC, StoreUnavailable),
        (apsw.SQLITE_PROTOCOL, StoreUnavailable),
        (apsw.SQLITE_FULL, StoreFull),
        (apsw.SQLITE_READONLY, StoreReadOnly),
    ],
)
def test_values_are_blamed_where_only_they_can_be_at_fault(code: int, kind: type[RotaError], tmp_path: Path) -> None:
    with pytest.raises(RotaError) as caught, translated(str(tmp_path / "gone" / "rota.db")):
        raise apsw.exception_for(code)
    assert type(caught.value) is kind

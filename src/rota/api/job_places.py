"""Places in a list of jobs, as cursors: where the next page begins, and the instant of the search.

Relative times of a query (`finished>-2h`) count from the instant of the first page, so all pages mean the same times.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from rota.api.pages import cursor_of, read_cursor
from rota.model.times import LATEST, Instant
from rota.store.values import JobCursor

Id = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
Number = Annotated[int, msgspec.Meta(ge=-1, lt=1 << 62)]
Moment = Annotated[int, msgspec.Meta(ge=0, le=LATEST)]


class JobPlace(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Behind the job with this id, which has this end or this value of the field that the list is sorted by."""

    id: Id
    ended_at: Number | None
    value: str | int | float | None
    at: Moment

    @classmethod
    def behind(cls, last: JobCursor, at: Instant) -> JobPlace:
        return cls(last.id, last.ended_at, last.value, at)

    @classmethod
    def read(cls, text: str, conditions: Any) -> JobPlace:
        """Raises InvalidInput."""
        return read_cursor(text, cls, conditions)

    def text(self, conditions: Any) -> str:
        return cursor_of(self, conditions)

    @property
    def cursor(self) -> JobCursor:
        return JobCursor(self.id, self.ended_at, self.value)

"""Places in a search of output, as cursors: where the next page begins, and the instant of the search.

Relative times of a query (`at>-2h`) count from the instant of the first page, so all pages mean the same times.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from rota.api.pages import cursor_of, read_cursor
from rota.model.times import LATEST, Instant
from rota.store.found_lines import LinePlace

Moment = Annotated[int, msgspec.Meta(ge=0, le=LATEST + 1)]
Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class LineCursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Before the line at this place."""

    at: Moment
    job_id: Annotated[str, msgspec.Meta(max_length=36)]
    fence: Number
    number: Number
    offset: Number
    now: Moment

    @classmethod
    def before(cls, place: LinePlace, now: Instant) -> LineCursor:
        return cls(place.at, place.job_id, place.fence, place.number, place.offset, now)

    @classmethod
    def read(cls, text: str, conditions: Any) -> LineCursor:
        """Raises InvalidInput."""
        return read_cursor(text, cls, conditions)

    def text(self, conditions: Any) -> str:
        return cursor_of(self, conditions)

    @property
    def place(self) -> LinePlace:
        return LinePlace(self.at, self.job_id, self.fence, self.number, self.offset)

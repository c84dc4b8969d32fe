"""Groups of errors."""

from __future__ import annotations

import msgspec

from rota.model.error_groups import ErrorGroup
from rota.model.times import iso
from rota.views.moments import Moment


class ErrorGroupView(msgspec.Struct):
    """Dead letters with the same error. `title` has placeholders for what varies; `example`: the id of one of them."""

    id: str
    task: str
    title: str
    count: int
    first_at: Moment
    last_at: Moment
    example: str

    @classmethod
    def of(cls, group: ErrorGroup) -> ErrorGroupView:
        return cls(
            group.id, group.task, group.title, group.count, iso(group.first_at), iso(group.last_at), group.example
        )

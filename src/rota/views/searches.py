"""How far a search has come."""

from __future__ import annotations

import msgspec

from rota.store.values import SearchProgress
from rota.views.moments import Moment, moment


class SearchProgressView(msgspec.Struct):
    """`examined`: jobs for this page; `of`: how many there were to examine for this page and all behind it, about;
    `back_to`: when the last of them was ordered, or ended if the list is by ends."""

    examined: int
    of: int | None
    back_to: Moment | None

    @classmethod
    def of_page(cls, progress: SearchProgress) -> SearchProgressView:
        return cls(progress.examined, progress.of, moment(progress.back_to))

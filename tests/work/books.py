"""A book for attempts of which nobody wants to know how far they are."""

from __future__ import annotations

from typing import cast

from rota.model.progress import Progress
from rota.work.progress import ProgressBook


class _Shut:
    saved = False

    def now(self) -> int:
        return 0

    def tell(self, progress: Progress) -> None:
        pass

    async def flush(self) -> None:
        pass

    def lose(self) -> None:
        pass


def shut_book() -> ProgressBook:
    return cast(ProgressBook, _Shut())

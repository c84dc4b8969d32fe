"""`Handle`: what `Job`, `Workflow` and `Schedule` share. Handles of one store with the same id are equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.errors import InvalidInput

if TYPE_CHECKING:
    from rota.app import App
    from rota.app_core import AppCore


class Handle:
    """`_hash` is kept from its first use: the jobs of a workflow may get another id when they are ordered, and must be
    found in a dict afterwards, too."""

    _app: AppCore
    _hash: int | None = None

    def _identity(self) -> tuple[type[Handle], str]:
        """The kind, and the id; an empty one is not known yet."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Handle):
            return NotImplemented
        mine = self._identity()
        return bool(mine[1]) and mine == other._identity() and self._app.same_store(other._app)

    def __hash__(self) -> int:
        if self._hash is None:
            kind, known = self._identity()
            self._hash = hash((kind, known or id(self)))
        return self._hash


def core_of(given: App | AppCore) -> AppCore:
    """The core of the app of a handle; that of a shared task is looked up. Raises InvalidInput."""
    found: AppCore | None = getattr(getattr(given, "_core", given), "this", None)
    if found is None:
        raise InvalidInput("app", given, "a rota.App")
    return found


def id_of(given: object, what: str) -> str:
    if not isinstance(given, str):
        raise InvalidInput(what, given, "a text")
    return given

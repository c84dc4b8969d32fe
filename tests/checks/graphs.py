"""Children against their parents: I8."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from tests.checks.breach import NOT_SKIPPED, TOO_SOON, WRONGLY_SKIPPED, Breach

SUCCESS, FINISH, FAILURE = "success", "finish", "failure"
Name = TypeVar("Name")


def fits(need: str, state: str) -> bool:
    """Whether a parent that ended in this state lets a child go on. Written once more, on purpose: rota's own table is
    what is checked."""
    return {SUCCESS: state == "succeeded", FAILURE: state == "failed", FINISH: True}[need]


class Parents(NamedTuple, Generic[Name]):
    """The parents of a child with what it needs of them, and the states in which those have ended. A parent that was
    replayed meanwhile may have ended in two ways: then either may count."""

    needs: Iterable[tuple[Name, str]]
    ended: Mapping[Name, Collection[str]]

    def unmet(self) -> list[tuple[Name, str]]:
        """Those that have not ended as needed."""
        return [
            (parent, need)
            for parent, need in self.needs
            if not any(fits(need, state) for state in self.ended.get(parent, ()))
        ]

    def broken(self) -> list[tuple[Name, str]]:
        """Those that have ended otherwise than needed."""
        return [
            (parent, need)
            for parent, need in self.needs
            if any(not fits(need, state) for state in self.ended.get(parent, ()))
        ]

    def _told(self, which: tuple[Name, str]) -> str:
        parent, need = which
        how = " and ".join(sorted(self.ended.get(parent, ()))) or "nothing"
        return f"its parent {parent} has ended as {how}, and it needs {need}"

    def goes_on(self) -> Breach | None:
        unmet = self.unmet()
        return Breach("I8", TOO_SOON, f"it went on, and {self._told(unmet[0])}") if unmet else None

    def is_skipped(self) -> Breach | None:
        return (
            None if self.broken() else Breach("I8", WRONGLY_SKIPPED, "it was skipped, and no parent stands in the way")
        )

    def ends(self, state: str, ran: bool) -> Breach | None:
        """When all is over: a child was skipped if, and only if, a parent stood in its way."""
        if state == "skipped" and not ran:
            return self.is_skipped()
        broken = self.broken()
        return Breach("I8", NOT_SKIPPED, f"{state}{' and ran' * ran}: {self._told(broken[0])}") if broken else None

"""Children against their parents: I8."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from tests.checks.breach import NOT_SKIPPED, TOO_SOON, WRONGLY_SKIPPED, Breach

SUCCESS, FINISH, FAILURE, FINE, TROUBLE = "success", "finish", "failure", "fine", "trouble"
# How a skipped job has ended, besides plain "skipped": because a job before it failed, or because it had nothing to do.
TROUBLED, UNNEEDED = "skipped for trouble", "skipped as unneeded"
Name = TypeVar("Name")


def fits(need: str, end: str) -> bool:
    """Whether a parent that ended like this is what a child needs. Written once more, on purpose: rota's own table is
    what is checked."""
    return {
        SUCCESS: end == "succeeded",
        FAILURE: end == "failed",
        FINISH: True,
        FINE: end in ("succeeded", UNNEEDED),
        TROUBLE: end in ("failed", TROUBLED),
    }[need]


def _behind(need: str, end: str) -> str:
    """How a child has ended that was skipped for this parent."""
    if need == FAILURE:
        return UNNEEDED
    return {"failed": TROUBLED, TROUBLED: TROUBLED, UNNEEDED: UNNEEDED}.get(end, "skipped")


class Parents(NamedTuple, Generic[Name]):
    """The parents of a child with what it needs of them, and how those have ended. A parent that was replayed meanwhile
    may have ended in two ways, and one that several stood in the way of may have been skipped for any of them: then
    each may count."""

    needs: Iterable[tuple[Name, str]]
    ended: Mapping[Name, Collection[str]]

    def _ends(self, parent: Name) -> Collection[str]:
        return self.ended.get(parent, ())

    def unmet(self) -> list[tuple[Name, str]]:
        """Those that have not ended as needed; for trouble, all must have ended."""
        return [
            (parent, need)
            for parent, need in self.needs
            if not any(need == TROUBLE or fits(need, end) for end in self._ends(parent))
        ]

    def broken(self) -> list[tuple[Name, str]]:
        """Those that may have ended otherwise than needed, so that the child is skipped for them."""
        return [
            (parent, need)
            for parent, need in self.needs
            if need != TROUBLE and any(not fits(need, end) for end in self._ends(parent))
        ]

    def _surely_broken(self) -> list[tuple[Name, str]]:
        found = self.broken()
        return [(parent, need) for parent, need in found if not any(fits(need, end) for end in self._ends(parent))]

    def _alarms(self) -> list[Collection[str]]:
        return [self._ends(parent) for parent, need in self.needs if need == TROUBLE]

    def idle(self) -> bool:
        """It waits for trouble, and all may have ended without."""
        alarms = self._alarms()
        return bool(alarms) and not self.unmet() and all(any(not fits(TROUBLE, one) for one in ends) for ends in alarms)

    def alarmed(self) -> bool:
        """It does not wait for trouble, or there may have been some."""
        alarms = self._alarms()
        return not alarms or any(fits(TROUBLE, end) for ends in alarms for end in ends)

    def causes(self) -> set[str]:
        """How a child may have ended that was skipped for these parents."""
        broken = self.broken()
        return {_behind(need, end) for one, need in broken for end in self._ends(one) if not fits(need, end)} or {
            UNNEEDED
        }

    def _told(self, which: tuple[Name, str]) -> str:
        parent, need = which
        how = " and ".join(sorted(self._ends(parent))) or "nothing"
        return f"its parent {parent} has ended as {how}, and it needs {need}"

    def goes_on(self) -> Breach | None:
        if unmet := self.unmet():
            return Breach("I8", TOO_SOON, f"it went on, and {self._told(unmet[0])}")
        return None if self.alarmed() else Breach("I8", TOO_SOON, "it went on, and nothing before it failed")

    def is_skipped(self) -> Breach | None:
        if self.broken() or self.idle():
            return None
        return Breach("I8", WRONGLY_SKIPPED, "it was skipped, and no parent stands in the way")

    def ends(self, state: str, ran: bool) -> Breach | None:
        """When all is over: a child was skipped if, and only if, a parent stood in its way, or it had nothing to do."""
        if state == "skipped" and not ran:
            return self.is_skipped()
        if broken := self._surely_broken():
            return Breach("I8", NOT_SKIPPED, f"{state}{' and ran' * ran}: {self._told(broken[0])}")
        if not self.alarmed():
            return Breach("I8", NOT_SKIPPED, f"{state}{' and ran' * ran}: nothing before it failed")
        return None

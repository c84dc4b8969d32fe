"""Who is taken for dead, who gives up, who leads, and by whose clock: rules of nodes and of time."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

from rota.lease import EXPOSED_MARGIN, EXPOSED_WARNING, MARGIN, WARNING
from rota.model.times import SECOND
from rota.store.postgres.session import GRACE
from tests.sim.rules import Book
from tests.sim.witness import Note, Row

A_MOMENT = 0.01
# What a clock that is asked over the network may be wrong by: half of the slowest round trip, and a little.
ERROR = 3.5
# More looks at what is due than this in a second: somebody spins.
LOOKS = 150


class LeaseBook(Book):
    """Work is taken from a node, or given up by it, for one of these reasons and no other:

    - the node is gone;
    - it has not renewed for its whole lease (it gives up earlier, by the margins of `lease.py`);
    - its session was lost while the server lived, or did not answer, and it has not renewed for the grace since then.
      (Nor does it when the session was lost by a restart of the server, and the node was stopped or cut off: then it
      can't know that it was a restart.)

    So no outage, restart or partition that is shorter than that costs any work. One more is excused: the clock of the
    store jumps while a session is lost, and the grace with it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[str, tuple[float, float]] = {}  # incarnation -> renewed when, until when
        self._homes: dict[str, str] = {}
        self._lengths: dict[str, float] = {}  # life -> of its lease
        self._heard: dict[str, float] = {}  # life -> when it asked for the last renewal that was answered
        self._bare: dict[str, float] = {}  # life -> since when its session is lost
        self._shut: dict[str, float] = {}  # the same, by a restart of the server
        self._blind: set[str] = set()  # lives that are stopped, machines that are cut off
        self._leaving: set[str] = set()
        self._jumped = float("-inf")

    def on_lease(self, note: Note, incarnation: str, until: float) -> None:
        if incarnation not in self._seen:
            self._heard.pop(note.who, None)
            self._bare.pop(note.who, None)
            self._shut.pop(note.who, None)
        self._seen[incarnation], self._homes[incarnation] = (note.at, until), note.who
        self._lengths[note.who] = until - note.at

    def on_renewed(self, note: Note, asked: float, incarnation: str) -> None:
        self._heard[note.who] = asked
        if asked >= self._shut.get(note.who, float("inf")):
            del self._shut[note.who]
        if asked >= self._bare.get(note.who, float("inf")):
            del self._bare[note.who]

    def on_unlocked(self, note: Note, why: str) -> None:
        knows = why == "restart" and not {note.who, _machine(note.who)} & self._blind
        (self._shut if knows else self._bare).setdefault(note.who, note.at)

    def on_forsaken(self, note: Note) -> None:
        """It did not answer, and was given up by the node itself."""
        self._bare.setdefault(note.who, note.at)

    def on_cut(self, note: Note, **_: Any) -> None:
        """Whoever lost its session to a restart, and is stopped or cut off, can't know that it was one."""
        self._blind.add(note.who)
        self._bare |= {life: note.at for life in self._shut if note.who in (life, _machine(life))}

    def on_mended(self, note: Note, **_: Any) -> None:
        self._blind.discard(note.who)

    on_paused, on_resumed = on_cut, on_mended

    def on_jump(self, note: Note, store: bool, **_: Any) -> None:
        if store:
            self._jumped = note.at

    def on_declared(self, note: Note, incarnation: str, gone: bool) -> None:
        seen, until = self._seen[incarnation]
        silent = note.at - seen
        bare = self._homes[incarnation] in self._bare and (silent >= GRACE / SECOND - A_MOMENT or self._jumped >= seen)
        if not gone and note.at < until and not bare:
            text = f"{self._homes[incarnation]} lives, has renewed {silent:.2f} s ago, and was taken over"
            self.found("lease", text, note)

    def on_sigterm(self, note: Note) -> None:
        """From here on it may say late that it has lost its lease: it waits for a claim that is under way."""
        self._leaving.add(note.who)

    def on_unleased(self, note: Note, why: str) -> None:
        if "in time" not in why or note.who not in self._heard or note.who in self._leaving:
            return
        silent = note.at - self._heard[note.who]
        patience = self._lengths[note.who] - MARGIN - WARNING
        if note.who in self._bare:
            patience = GRACE / SECOND - EXPOSED_MARGIN - EXPOSED_WARNING
        if silent < patience - A_MOMENT:
            self.found("lease", f"it gave up its work after {silent:.2f} s without a renewal: too soon", note)


def _machine(life: str) -> str:
    return life.partition(".")[0]


class LeaderBook(Book):
    """Terms rise with each new leader; when all is well, exactly one node believes that it leads."""

    def __init__(self) -> None:
        super().__init__()
        self._term, self._leader = 0, ""

    def on_term(self, note: Note, incarnation: str, term: int) -> None:
        if term < self._term or (term == self._term and incarnation != self._leader):
            self.found("leader", f"{incarnation} leads term {term} after {self._leader} led {self._term}", note)
        self._term, self._leader = term, incarnation

    def on_leaders(self, note: Note, names: list[str]) -> None:
        if len(names) != 1:
            self.found("leader", f"all is well, and those who believe that they lead are {names}", note)


class TimeBook(Book):
    """One clock counts, and nobody comes much later than it says. Nothing is said about runs in which it jumped."""

    def __init__(self) -> None:
        super().__init__()
        self._jumped = False
        self._bound: float | None = None
        self._finale: int | None = None
        self._slack, self._ahead = 0.0, 0.0
        self._since: dict[str, int] = {}  # job -> when it became scheduled
        self._looks: dict[tuple[str, str], deque[float]] = defaultdict(lambda: deque(maxlen=LOOKS))

    def on_jump(self, note: Note, store: bool, **_: Any) -> None:
        self._jumped |= store

    def on_stamp(self, note: Note, thing: str, ahead: float) -> None:
        if ahead > ERROR and not self._jumped:
            self.found("clock", f"{thing} is dated {ahead:.1f} s in the future", note)

    def on_look(self, note: Note, shelf: str) -> None:
        looks = self._looks[note.who, shelf]
        if len(looks) == LOOKS and note.at - looks[0] < 1:
            self.found("broken", f"{note.who} did {shelf} more than {LOOKS} times in a second", note)
        looks.append(note.at)

    def on_finale(self, note: Note, bound: float, wall: int, slack: float, ahead: float) -> None:
        """`slack`: more than the bound, for jobs that became scheduled less than `ahead` before they are due."""
        self._bound, self._finale = bound, wall
        self._slack, self._ahead = slack, ahead

    def on_fire(self, note: Note, kind: str, fire: int, wall: int, **_: Any) -> None:
        if self._finale is not None and self._bound is not None and kind == "rule" and fire >= self._finale:
            late = (wall - fire) / SECOND
            if late > self._bound:
                self.found("late", f"all was well, and the fire was made {late:.2f} s after its time", note)

    def on_row(self, note: Note, verb: str, wall: int, before: Row | None, after: Row | None, **_: Any) -> None:
        if after and after["state"] == "scheduled" and (before is None or before["run_at"] != after["run_at"]):
            self._since[note.job] = wall
        moves = verb in ("promote", "promote_jobs")
        if self._bound is not None and moves and before and before["state"] == "scheduled":
            late = (wall - before["run_at"]) / SECOND
            short = before["run_at"] - self._since.get(note.job, 0) < self._ahead * SECOND
            if late > self._bound + (self._slack if short else 0.0):
                self.found("late", f"due, all was well, and it became ready {late:.2f} s later", note)

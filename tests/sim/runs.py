"""What really ran: never two attempts at once, nothing that the store does not know of, no words put into its mouth."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tests.checks.at_once import AtOnce
from tests.checks.attempts import Attempts, proven
from tests.checks.breach import OVERLAP, Breach
from tests.sim.rules import Book
from tests.sim.witness import Note, Row


class Excuses(Book):
    """When a node could not guard itself against two things that run at once.

    A keeper kills what is outside of a valid lease, unless its whole machine slept past the end of the lease: then only
    fences protect, and two attempts may overlap until it has come round.

    Nor can a node guard itself that is stopped while its session is lost on the server: for others it is gone after the
    grace, and its keeper knows of its lease alone. Nor one that is cut off when the server ends its session, and so
    can't be told. (Nor if the server's clock jumps while a session is lost.)
    """

    def __init__(self) -> None:
        super().__init__()
        self._leases: dict[str, float] = {}  # incarnation -> until when
        self._homes: dict[str, str] = {}  # incarnation -> the life it belongs to
        self._asleep: set[str] = set()
        self._overslept: set[str] = set()
        self._stopped: set[str] = set()
        self._bare: dict[str, float] = {}  # life -> since when its session is lost, and it has not renewed
        self._helpless: set[str] = set()  # those of them that were stopped meanwhile, or could not be told
        self._deaf: set[str] = set()  # machines that hear nothing of the server

    # -- leases and machines -----------------------------------------------------------------------------------------
    def on_lease(self, note: Note, incarnation: str, until: float) -> None:
        self._leases[incarnation], self._homes[incarnation] = until, note.who
        self._overslept.discard(incarnation)

    def on_paused(self, note: Note, whole: bool, **_: Any) -> None:
        self._stopped.add(note.who)
        if whole:
            self._asleep.add(note.who)

    def on_resumed(self, note: Note, **_: Any) -> None:
        self._stopped.discard(note.who)
        if note.who in self._asleep:
            self._asleep.discard(note.who)
            self._overslept |= {
                one for one, life in self._homes.items() if life == note.who and note.at >= self._leases[one]
            }

    # -- sessions on a server ----------------------------------------------------------------------------------------
    def on_unlocked(self, note: Note, why: str) -> None:
        if why != "restart":
            self._bare[note.who] = note.at
        if why not in ("restart", "closed") and note.who.partition(".")[0] in self._deaf:
            self._helpless.add(note.who)

    def on_cut(self, note: Note, down: bool, **_: Any) -> None:
        if down:
            self._deaf.add(note.who)

    def on_mended(self, note: Note) -> None:
        self._deaf.discard(note.who)

    def on_renewed(self, note: Note, asked: float, **_: Any) -> None:
        if asked >= self._bare.get(note.who, float("inf")):
            del self._bare[note.who]
            self._helpless.discard(note.who)

    def on_jump(self, note: Note, store: bool, **_: Any) -> None:
        if store:
            self._helpless |= self._bare.keys()

    def _excused(self, attempt: Note, now: float) -> bool:
        incarnation = attempt.data["incarnation"]
        if attempt.who in self._bare and (attempt.who in self._stopped or attempt.who in self._helpless):
            self._helpless.add(attempt.who)
            return True
        asleep = attempt.who in self._asleep and now >= self._leases[incarnation]
        return asleep or incarnation in self._overslept


class RunBook(Excuses):
    """I4 holds for attempts inside a valid lease; for what is outside see `Excuses`.

    One more overlap is excused: a person replays a job that was cancelled or timed out while its function, deaf to all,
    goes on. The job has ended, its function has not, and only the person can know whether that matters."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, Row] = {}
        self._running: dict[str, AtOnce[Note]] = defaultdict(AtOnce)  # by job; each attempt by its fence
        self._attempts = Attempts()
        self._endings: dict[tuple[str, int], str] = {}
        self._said: dict[tuple[str, int], str] = {}
        self._unheard: set[tuple[str, int]] = set()
        self._kept: dict[tuple[str, int], str] = {}  # what an attempt had said when its end was written down
        self._abandoned: set[tuple[str, int]] = set()

    def _excused(self, attempt: Note, now: float) -> bool:
        return (attempt.job, attempt.fence) in self._abandoned or super()._excused(attempt, now)

    # -- attempts ----------------------------------------------------------------------------------------------------
    def on_started(self, note: Note, **_: Any) -> None:
        self.report(self._attempts.begin((note.job, note.fence)), note)
        running = self._running[note.job]
        for other in running.crowd(note.fence, 1, lambda other: not self._excused(other, note.at)) or ():
            if not self._excused(note, note.at):
                text = f"it began on {note.who} while fence {other.fence} still ran on {other.who}"
                self.report(Breach("I4", OVERLAP, text), note)
        self._known(note)
        running.begin(note.fence, note)

    def _known(self, note: Note) -> None:
        row = self._rows[note.job]
        known = row["state"] == "running" and row["fence"] == note.fence and row["started_at"] is not None
        if not known and not self._excused(note, note.at):
            self.found("I7", f"it began, but in the store it is {row['state']} with fence {row['fence']}", note)

    def on_effect(self, note: Note, line: str) -> None:
        attempt = (note.job, note.fence)
        self._said[attempt] = self._said.get(attempt, "") + line + "\n"

    def on_stuck(self, note: Note) -> None:
        """Nobody listens to it any more."""
        self._unheard |= {(one.job, one.fence) for one in self._running_now(note.job) if one.who == note.who}

    def _running_now(self, job: str) -> list[Note]:
        return list(self._running[job].holders.values())

    def on_ended(self, note: Note, how: str) -> None:
        self._endings[note.job, note.fence] = how
        self._running[note.job].end(note.fence)

    # -- what the store was told about them --------------------------------------------------------------------------
    def on_finish(self, note: Note, ending: str, verdict: str, failures: int) -> None:
        attempt = (note.job, note.fence)
        if verdict != "applied":
            return
        if attempt in self._endings and attempt not in self._unheard:
            self._kept[attempt] = self._said.get(attempt, "")
        how = self._endings.get(attempt, "unknown") if attempt in self._attempts.begun else "not begun"
        if failures and ending == "failed" and how not in ("failed", "fatal", "retry_after"):
            self.found("I11", f"a failure was counted for an attempt that has {how}", note)
        if how == "succeeded" and ending in ("failed", "crashed", "set_aside"):
            self.found("I23", f"its work has {how}, and it was settled as {ending}", note)

    def on_row(self, note: Note, verb: str, before: Row | None, after: Row | None, **_: Any) -> None:
        if after is None:
            return
        self._rows[note.job] = after
        if verb == "replay":
            self._abandoned |= {(other.job, other.fence) for other in self._running_now(note.job)}
        if before and before["state"] != "succeeded" and after["state"] == "succeeded":
            how = self._endings.get((note.job, before["fence"]))
            self.report(proven((note.job, before["fence"]), how == "succeeded", f"{how}"), note)

    def close(self, rows: dict[str, Row], output: dict[tuple[str, int], str]) -> None:
        for (job, fence), said in self._kept.items():
            if output.get((job, fence), "") != said:
                text = f"it said {said!r}, kept is {output.get((job, fence), '')!r}"
                self.found("I14", text, Note(float("inf"), "", "", job, fence, {}))


class FaultBook(Book):
    """Nobody may fall over by himself."""

    def on_broken(self, note: Note, error: str) -> None:
        self.found("broken", f"{note.who}: {error}", note)

    def on_stalled(self, note: Note, error: str) -> None:
        self.found("broken", error, note)

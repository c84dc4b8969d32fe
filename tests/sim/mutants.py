"""Mutants: each switches one safeguard off. The checker must catch them all, or it would not notice a real loss."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import msgspec

from rota import service
from rota.clients.schedules import SchedulesClient
from rota.control.scheduler import Scheduler
from rota.errors import StoreError
from rota.model import admission, outcome
from rota.model.keys import KeyState
from rota.model.lifecycle import JobEvent
from rota.model.node import NodeInfo, Watch
from rota.model.outcome import CrashRule, Ending, Problem, Settlement
from rota.model.times import SECOND
from rota.model.trigger import plan as planning
from rota.model.trigger.fires import next_fire
from rota.model.trigger.identity import fire_id
from rota.model.trigger.records import StoredSchedule
from rota.refusals import Refusals
from rota.store.graph import Settled
from rota.store.postgres.database import Database
from rota.store.postgres.session import LockSession
from rota.store.sqlite import alone, claim_scan, graph
from rota.store.sqlite.database import Database as SqliteDatabase
from rota.store.sqlite.database import queries
from tests.sim import hot_mutants
from tests.sim.plan import Plan

# Changes of a query: mutant -> (query, what stands there, what stands there instead).
_EDITS: dict[str, list[tuple[str, str, str]]] = {
    "finish-unfenced": [
        ("attempt_states", "j.state = 'running' AND j.fence = wanted.value ->> 1", "j.state = 'running'")
    ],
    "finish-twice": [
        ("attempt_states", "j.state = 'running' AND j.fence = wanted.value ->> 1", "j.fence = wanted.value ->> 1"),
        ("record_attempts", "coalesce(n.id, j.node)", "coalesce(n.id, j.node, '')"),
    ],
    "note-unfenced": [("note_states", "j.state = 'running' AND j.fence = wanted.value ->> 1", "true")],
    "state-forgotten": [("taken", "j.fence > 1", "j.fence > 2")],
    "claim-running": [
        ("lane", "state = 'ready'", "state IN ('ready', 'running')"),
        ("near_functions", "state = 'ready'", "state IN ('ready', 'running')"),
    ],
    "unknown-claimed": [("near_functions", "task IN (", "true OR task IN (")],
    "start-cancelled": [("start_states", "j.cancel", "NULL")],
    "due-too-early": [("due", "run_at <= :now", "run_at <= :now + 3000000")],
    "failures-uncounted": [("move_jobs", "failures + (r.value ->> 7)", "failures")],
    "keys-ignored": [
        ("known_keys", "k.key = wanted.value", "k.key = wanted.value AND 0"),
        ("insert_key", "INSERT INTO", "INSERT OR REPLACE INTO"),
    ],
    hot_mutants.NAMED_TOO_EARLY: [("due_of", "run_at <= :now", "true")],
}
_OF_SCHEDULES: dict[str, list[tuple[str, str, str]]] = {
    "revision-ignored": [("standing_schedules", "s.revision = wanted.revision AND ", "")],
    "pause-unfenced": [("pause_schedule", "revision = revision + 1, ", "")],
    "released-too-soon": [
        ("open_fires", "f.open AND NOT f.waiting", "f.open AND NOT f.waiting AND false"),
        ("free_fires", "g.open AND NOT g.waiting", "g.open AND NOT g.waiting AND false"),
    ],
    "fire-not-unique": [
        ("standing_schedules", "s.handled = wanted.handled", "true"),
        ("insert_fires", "INSERT INTO", "INSERT OR REPLACE INTO"),
        ("insert_fires", "ON CONFLICT (owner, name, fire) DO NOTHING", ""),
    ],
    "edit-forgets": [("replace_schedule", "AND (next_at IS NULL OR next_at > :since)", "")],
    "cursor-moves-back": [("move_schedules", "handled = max(s.handled, ", "handled = min(s.handled - 1, ")],
    "skips-unrecorded": [("insert_skips", "ORDER BY", "WHERE false ORDER BY")],
    "living-forgotten": [("reopen_fires", "NOT open", "NOT open AND false")],
    "resume-forgets": [("resume_schedule", "AND (next_at IS NULL OR next_at > :since)", "")],
    "remove-unfenced": [("remove_schedule", "AND revision = :revision AND handled = :before", "")],
    "fires-uncounted": [("move_schedules", "fired = s.fired + w.made", "fired = s.fired")],
}
# Of jobs that wait for others, keys and gates.
_OF_ADMISSION: dict[str, list[tuple[str, str, str]]] = {
    "edge-uncounted": [("move_children", "waits = r.value ->> 2", "waits = waits")],
    "released-twice": [  # by each parent
        ("move_children", "state = r.value ->> 1", "state = 'ready', finished_at = NULL, node = NULL"),
    ],
    "needs-ignored": [("mark_edges", "r.value ->> 2", "'met'"), ("skip_jobs", "state = 'skipped'", "state = 'ready'"),
                      ("skip_jobs", "finished_at = :now", "finished_at = NULL")],
    "alarms-for-nothing": [("edge_marks", "ON e.child = wanted.value", "ON false")],
    "causes-forgotten": [("skip_jobs", "skip_cause = r.value ->> 2", "skip_cause = NULL")],
    "reopen-forgets": [("reopen_edges", "SET state = 'open'", "SET state = state")],
    "slots-unrecorded": [("insert_slot", "VALUES (?, ?, ?, ?, ?, ?)", "SELECT ?, ?, ?, ?, ?, ? WHERE false")],
    "tokens-unrecorded": [("insert_start", "VALUES (?, ?, ?, ?, ?, ?, ?)", "SELECT ?, ?, ?, ?, ?, ?, ? WHERE false")],
    "open-forgets": [
        ("release_held", "WHERE seq IN", "WHERE false AND seq IN"),
        ("remove_gate", "state = 'held'", "false"),
    ],
    "until-ignored": [("opened_gates", "opened_at IS NOT NULL OR until <= :now", "opened_at IS NOT NULL")],
    "queue-pause-ignored": [("paused_queues", "paused_at IS NOT NULL", "false")],
    "freed-forgotten": [("freed_lines", "ORDER BY held_by LIMIT :limit", "WHERE false LIMIT :limit"),
                        ("any_freed", "SELECT EXISTS (SELECT 1 FROM freed)", "SELECT 0"),
                        ("all_lines", "state = 'held' AND held_by >= 'k:'", "false AND held_by >= 'k:'")],
}  # fmt: skip
EDITED = _EDITS | _OF_SCHEDULES | _OF_ADMISSION
# The same by other means.
SETTLE_FORGETS = "settle-forgets"  # what a write leaves of the children of a job is forgotten
SLOT_KEPT = "slot-kept-at-crash"  # a key is free when its job ends, but not when its node dies
LIMIT_IGNORED = "limit-ignored"  # by every second node
ALONE_AT_ONCE = "alone-at-once"  # it does not wait for those that run
GATE_ONLY_SWEPT = "gate-only-swept"  # claims don't look at the gates that people close
_BY_OTHER_MEANS = (GATE_ONLY_SWEPT, SETTLE_FORGETS, SLOT_KEPT, LIMIT_IGNORED, ALONE_AT_ONCE)
# Of crashes.
CRASH_IS_FAILURE = "crash-is-failure"  # a job whose process died is taken for one that failed
CRASH_LIMIT_IGNORED = "crash-limit-ignored"  # it comes back, however often it crashes
CRASH_AT_ONCE = "crash-at-once"  # it comes back without a pause
STATE_LOST = "state-lost-at-crash"  # what it had saved is gone
REFUSAL_BLAMED = "refusal-blamed"  # whatever the store says to a write, the values of the write are to blame
OF_CRASHES = (CRASH_IS_FAILURE, CRASH_LIMIT_IGNORED, CRASH_AT_ONCE, STATE_LOST)
# Those that change code, and where.
LEASE_IGNORED = "lease-ignored"  # the reaper takes living nodes for dead
HANG_IGNORED = "hang-ignored"  # a service may take as long as it likes
KEEPER_OFF = "keeper-off"  # nobody kills what has outlived its lease: see SimRuntime
# Those of servers.
SESSION_LOSS_IGNORED = "session-loss-ignored"  # a node whose lock is lost goes on as if nothing had happened
IDENTITY_IGNORED = "server-identity-ignored"  # a lock is free: whatever server the row names. See Server
GRACE_IGNORED = "grace-ignored"  # a lock is free: nobody waits whether its node lives. See Server
SKEWED_CLOCK = "skewed-clock"  # nodes and customers take the time from their own machine
CURSOR_SKEWED = "cursor-skewed"  # the cursor moves to what the clock of the node's machine says
OF_SERVERS = (SESSION_LOSS_IGNORED, IDENTITY_IGNORED, GRACE_IGNORED, SKEWED_CLOCK, CURSOR_SKEWED)
NAMES = (
    *_EDITS,
    *_OF_SCHEDULES,
    *_OF_ADMISSION,
    *_BY_OTHER_MEANS,
    *OF_CRASHES,
    LEASE_IGNORED,
    KEEPER_OFF,
    HANG_IGNORED,
    REFUSAL_BLAMED,
    *OF_SERVERS,
    *hot_mutants.PATCHES,
)
# A safeguard is missed only under the fault it is for: with these changes of the plan that fault comes often.
_STRESS: dict[str, dict[str, Any]] = {
    "finish-unfenced": {"fragile": 1, "whole_rate": 1.0, "visits": 40, "error_rate": 0.005},
    "note-unfenced": {"fragile": 1, "whole_rate": 1.0, "visits": 40, "error_rate": 0.005},
    "start-cancelled": {"prefetch": 3, "visits": 80, "slots": 1, "length": 30.0},
    "keeper-off": {"fragile": 1, "whole_rate": 0.0},
    "unknown-claimed": {"behind": True},
    **{
        mutant: {"pool": True, "crash_rate": 0.3, "visits": 30, "schedules": 0, "length": 20.0} for mutant in OF_CRASHES
    },
    REFUSAL_BLAMED: {"refuse_rate": 0.1, "visits": 30, "length": 20.0},
    HANG_IGNORED: {"stuck": True, "nodes": 1, "fragile": 1},
    **{mutant: {"schedules": 4, "visits": 5} for mutant in (*_OF_SCHEDULES, CURSOR_SKEWED)},
    "remove-unfenced": {"schedules": 4, "visits": 5, "slow_rate": 0.2},
    **{
        mutant: {"schedules": 0, "visits": 5, "decrees": 50, "length": 20.0}
        for mutant in (*_OF_ADMISSION, *_BY_OTHER_MEANS)
    },
    SETTLE_FORGETS: {"schedules": 0, "visits": 5, "decrees": 50, "length": 20.0, "piece": 1},
    **hot_mutants.STRESS,
}


def stress(plan: Plan, mutant: str | None) -> Plan:
    """The mutants of servers need one, and those of admission someone who orders workflows and closes gates; the others
    are hunted faster without."""
    if mutant is None:
        return plan
    changes: dict[str, Any] = {"server": mutant in OF_SERVERS, "decrees": 0, "schedules": 0, "behind": False, "hot": 0}
    return replace(plan, **(changes | _STRESS.get(mutant, {})))


def edited(mutant: str | None) -> dict[str, str]:
    """The queries of SQLite as the mutant has them."""
    changed = dict(queries())
    for query, old, new in EDITED.get(mutant or "", []):
        assert old in changed[query], f"mutant {mutant}: the query {query} has changed"
        changed[query] = changed[query].replace(old, new)
    return changed


def spoil(db: SqliteDatabase, mutant: str | None) -> None:
    db._queries = edited(mutant)
    if mutant == STATE_LOST:
        db.connection.execute(
            "CREATE TEMP TRIGGER forget_at_crash AFTER UPDATE ON main.jobs WHEN new.crashes > old.crashes "
            "BEGIN DELETE FROM checkpoints WHERE job = new.seq; END"
        ).fetchall()
    if mutant == SLOT_KEPT:
        text = db.connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'special_job_moved'").get
        spoilt = text.replace("WHEN old.special", "WHEN new.crashes = old.crashes AND old.special")
        assert spoilt != text, f"mutant {mutant}: the trigger has changed"
        db.connection.execute(f"DROP TRIGGER special_job_moved; {spoilt}").fetchall()


def _everyone(self: Watch, nodes: Iterable[NodeInfo], now: float, healthy_since: float) -> list[NodeInfo]:
    return list(nodes)


def _other_ids() -> Callable[[str, str, int], str]:
    """In the place of fire_id: another one each time."""
    numbers = itertools.count()
    return lambda owner, name, fire: fire_id(owner, f"{name}/{next(numbers)}", fire)


async def _not_up_to_date(self: SchedulesClient, info: StoredSchedule) -> bool:
    return True


def _skewed(prepare: Callable[..., Any]) -> Callable[..., Any]:
    async def prepare_skewed(self: Scheduler, info: StoredSchedule) -> None:
        await prepare(self, info)
        if one := self._prepared.get((info.owner, info.name)):
            handled = max(one.step.handled, self._store._clock.now())  # type: ignore[attr-defined]
            following = next_fire((await self._read(info)).schedule, handled)
            step = msgspec.structs.replace(one.step, handled=handled, next_at=following)
            self._prepared[info.owner, info.name] = msgspec.structs.replace(one, step=step)

    return prepare_skewed


def _forgetful(settle: Callable[..., Settled]) -> Callable[..., Settled]:
    def settle_and_forget(db: SqliteDatabase, most: int = 1) -> Settled:
        settled = settle(db, most)
        db.connection.execute("DELETE FROM settling").fetchall()
        return settled

    return settle_and_forget


def _blind(init: Callable[..., None]) -> Callable[..., None]:
    def look_away(self: claim_scan.ClaimScan, db: SqliteDatabase, incarnation: str, closed: Any, now: int) -> None:
        init(self, db, incarnation, [gate for gate in closed if gate.job is not None], now)

    return look_away


def _boundless(choose: Callable[..., Any]) -> Callable[..., Any]:
    def choose_anyway(self: claim_scan.ClaimScan, *args: Any) -> Any:
        if sum(map(ord, self._incarnation)) % 2:
            return choose(self, *args)
        with mock.patch.object(KeyState, "room", return_value=None):
            return choose(self, *args)

    return choose_anyway


def _as_failure(job_id: str, fence: int, problem: Problem, crashes: int, rule: CrashRule) -> Settlement:
    return Settlement(job_id, fence, JobEvent.RETRY, Ending.FAILED, SECOND, failures=1, error=problem)


def _blamed(self: Refusals, error: Exception) -> bool:
    self.count += 1
    return not (isinstance(error, StoreError) and error.passing)


@contextmanager
def patched(mutant: str | None) -> Iterator[None]:
    with ExitStack() as stack:
        for target, name, instead in hot_mutants.PATCHES.get(mutant or "", []):
            stack.enter_context(mock.patch.object(target, name, instead))
        if mutant == CRASH_IS_FAILURE:
            stack.enter_context(mock.patch.object(outcome, "_crash", _as_failure))
        if mutant == CRASH_LIMIT_IGNORED:
            again = lambda rule, crashes: JobEvent.RECOVER if crashes == 1 else JobEvent.BACK_OFF  # noqa: E731
            stack.enter_context(mock.patch.object(CrashRule, "after_crash", again))
        if mutant == CRASH_AT_ONCE:
            at_once = lambda rule, crashes: JobEvent.QUARANTINE if crashes >= rule.limit else JobEvent.RECOVER  # noqa: E731
            stack.enter_context(mock.patch.object(CrashRule, "after_crash", at_once))
        if mutant == LEASE_IGNORED:
            stack.enter_context(mock.patch.object(Watch, "dead", _everyone))
        if mutant == REFUSAL_BLAMED:
            stack.enter_context(mock.patch.object(Refusals, "hopeless", _blamed))
        if mutant == HANG_IGNORED:
            stack.enter_context(mock.patch.object(service, "LIMIT", float("inf")))
        if mutant == SESSION_LOSS_IGNORED:
            stack.enter_context(mock.patch.object(LockSession, "exposed", return_value=None))
        if mutant == "fire-not-unique":
            stack.enter_context(mock.patch.object(planning, "fire_id", _other_ids()))
        if mutant in ("edit-forgets", "resume-forgets"):
            stack.enter_context(mock.patch.object(SchedulesClient, "_up_to_date", _not_up_to_date))
        if mutant == CURSOR_SKEWED:
            stack.enter_context(mock.patch.object(Scheduler, "_prepare", _skewed(Scheduler._prepare)))
        if mutant == SETTLE_FORGETS:
            stack.enter_context(mock.patch.object(graph, "settle", _forgetful(graph.settle)))
        if mutant == GATE_ONLY_SWEPT:
            blind = _blind(claim_scan.ClaimScan.__init__)
            stack.enter_context(mock.patch.object(claim_scan.ClaimScan, "__init__", blind))
        if mutant == LIMIT_IGNORED:
            boundless = _boundless(claim_scan.ClaimScan._with_care)
            stack.enter_context(mock.patch.object(claim_scan.ClaimScan, "_with_care", boundless))
        if mutant == ALONE_AT_ONCE:
            for module in (admission, alone):
                stack.enter_context(mock.patch.object(module, "is_alone", return_value=True))
        if mutant == SKEWED_CLOCK:
            stack.enter_context(mock.patch.object(Database, "now", lambda self: self.clock.now()))
        yield

"""The schema says what the table of steps says: its CHECKs by trying, its lists of states by reading."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest

from rota.clock import ManualClock
from rota.model.lifecycle import INITIAL, LIVE, STEPS, TERMINAL, JobEvent, State, sources
from rota.model.node import NodeState
from rota.store import sql_files
from rota.store.sqlite import database, migrate

WORDS = re.compile(r"'(\w+)'")


def add(db: apsw.Connection, state: str, *, finished: bool, node: bool, priority: int = 5) -> None:
    db.execute(
        "INSERT INTO jobs (id, owner, state, queue, kind, task, priority, rank, run_at, created_at, finished_at, node)"
        " VALUES (hex(randomblob(8)), 'o', ?, 'q', 'command', 't', ?, 1, 1, 1, ?, ?)",
        (state, priority, 1 if finished else None, "n" if node else None),
    )


@pytest.mark.parametrize("state", list(State))
def test_every_state_is_accepted_with_the_marks_that_belong_to_it(db: apsw.Connection, state: State) -> None:
    """Ended if and only if it has an end; held by a node if and only if it runs."""
    for finished in (True, False):
        for node in (True, False):
            if finished == (state in TERMINAL) and node == (state is State.RUNNING):
                add(db, state.value, finished=finished, node=node)
            else:
                with pytest.raises(apsw.ConstraintError):
                    add(db, state.value, finished=finished, node=node)


@pytest.mark.parametrize("state", ["", "READY", "done", "ready ", "paused"])
def test_no_other_state_is_accepted(db: apsw.Connection, state: str) -> None:
    for finished in (True, False):
        with pytest.raises(apsw.ConstraintError):
            add(db, state, finished=finished, node=False)


def test_the_check_lists_exactly_the_states_of_the_table(db: apsw.Connection) -> None:
    text: str = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'jobs'").get
    listed = re.search(r"CHECK \((state = .*?)\)", text, re.DOTALL)
    assert listed is not None
    states = WORDS.findall(listed[1])
    assert states == [state.value for state in State]
    assert set(STEPS.values()) <= set(states)


@pytest.mark.parametrize("priority", [-1, 10, 2**40])
def test_a_priority_outside_its_range_is_refused(db: apsw.Connection, priority: int) -> None:
    with pytest.raises(apsw.ConstraintError):
        add(db, "ready", finished=False, node=False, priority=priority)


def test_the_states_of_nodes(db: apsw.Connection) -> None:
    text: str = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'nodes'").get
    listed = re.search(r"CHECK \(state IN \((.*?)\)\)", text, re.DOTALL)
    assert listed is not None
    assert set(WORDS.findall(listed[1])) == set(NodeState)


def states_in(text: str) -> set[str]:
    return set(WORDS.findall(text)) & {state.value for state in State}


def index(db: apsw.Connection, name: str) -> set[str]:
    return states_in(db.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (name,)).get)


def test_the_indexes_hold_the_shelves_they_are_for(db: apsw.Connection) -> None:
    assert index(db, "jobs_ready") == sources(JobEvent.CLAIM)
    assert index(db, "jobs_due") == sources(JobEvent.PROMOTE)
    assert index(db, "jobs_expiring") == sources(JobEvent.EXPIRE)
    assert index(db, "jobs_running") == {State.RUNNING}
    assert index(db, "jobs_dead") == {State.FAILED}
    assert index(db, "jobs_ended") | index(db, "jobs_dead") == TERMINAL
    assert not index(db, "jobs_ended") & index(db, "jobs_dead")


def condition(name: str) -> str:
    return sql_files.load("sqlite")[name].split("WHERE", 1)[1]


def test_the_queries_move_jobs_off_the_shelves_that_the_table_names() -> None:
    assert states_in(condition("cancel_waiting")) == sources(JobEvent.CANCEL) - {State.RUNNING} == INITIAL
    assert states_in(condition("cancel_running")) == {State.RUNNING}
    # Which of them may come back is asked before, in Python: here it is where they go.
    assert states_in(sql_files.load("sqlite")["reopen_jobs"]) == {
        STEPS[state, event] for state, event in STEPS if event in (JobEvent.REPLAY, JobEvent.RERUN, JobEvent.REOPEN)
    }
    # Ready ones are skipped by `put_away`, whoever of them a claim has met.
    assert states_in(condition("skip_jobs")) == sources(JobEvent.SKIP) - {State.READY} == {State.BLOCKED}
    assert states_in(condition("release_held")) == sources(JobEvent.ADMIT)
    assert states_in(condition("sweep")) == sources(JobEvent.DROP)
    assert states_in(sql_files.load("sqlite")["queue_states"]) == LIVE
    assert states_in(condition("queue_endings")) == TERMINAL
    assert states_in(condition("hurry_jobs")) == {State.SCHEDULED}
    assert states_in(condition("seqs_of_ended")) == TERMINAL
    assert states_in(condition("expired")) == sources(JobEvent.EXPIRE)
    assert states_in(condition("next_instant")) == sources(JobEvent.EXPIRE) | sources(JobEvent.PROMOTE)
    assert states_in(condition("due")) == sources(JobEvent.PROMOTE)
    assert states_in(condition("lane")) == sources(JobEvent.CLAIM)
    assert states_in(condition("old_ended")) | states_in(condition("old_dead")) == TERMINAL
    assert states_in(condition("delete_old_keys")) == LIVE


def test_every_table_is_strict(db: apsw.Connection) -> None:
    tables = db.execute("SELECT name, strict FROM pragma_table_list WHERE type = 'table'").fetchall()
    loose = {name for name, strict in tables if not strict} - {"sqlite_schema", "sqlite_temp_schema", "sqlite_sequence"}
    assert not loose


def test_the_file_knows_whose_it_is_and_how_old(db: apsw.Connection) -> None:
    assert db.pragma("application_id") == database.APPLICATION == int.from_bytes(b"rot1", "big")
    assert db.pragma("user_version") == migrate.known_version() == sql_files.migrations("sqlite")[-1][0]
    assert db.pragma("journal_mode") == "wal"


def test_migrations_are_numbered_without_gaps() -> None:
    assert [number for number, _ in sql_files.migrations("sqlite")] == list(range(1, migrate.known_version() + 1))


def test_nobody_sees_half_of_a_migration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that opened a new file meanwhile would be told to migrate it."""
    path, seen, apply = str(tmp_path / "a.db"), set(), migrate._apply
    db = database.Database(path, ManualClock(), 0)
    onlooker = apsw.Connection(path)

    def watched(db: database.Database, number: int, text: str) -> None:
        apply(db, number, text)
        seen.add(onlooker.pragma("user_version"))

    monkeypatch.setattr(migrate, "_apply", watched)
    assert migrate.migrate(db) == (0, migrate.known_version())
    assert seen == {0}
    assert onlooker.pragma("user_version") == migrate.known_version()
    onlooker.close()
    db.close()

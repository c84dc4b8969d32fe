"""Claims of jobs with keys and gates, and lines for keys: PostgreSQL decides as the pure functions of the model do.

Hundreds of random cases go into one call: each has an owner to itself.
"""

from __future__ import annotations

from typing import Any

import pytest

from rota.model.admission import ClaimAdmission
from rota.model.gates import ClosedGate, Effect
from rota.model.keys import Line, going_on, line, looks_back, token_counts
from rota.model.limits import RUNNING_QUOTA, Rate, effective
from rota.model.requirements import Requirements
from tests.store.postgres import rule_cases as cases
from tests.store.postgres.rule_cases import NOW, STEP, Case, Cases, Connection, Job, put_cases

pytestmark = pytest.mark.slow

ROUNDS, PIECE = 8, 250  # calls, and cases in each


# -- claim admission --------------------------------------------------------------------------------------------------
Row = tuple[str, str | None, str | None]  # state, held by, reason


def expected(case: Case, admission: ClaimAdmission) -> dict[str, Row]:
    found: dict[str, Row] = dict.fromkeys(admission.taken, ("running", None, None))
    found |= {one.job: ("held", one.held_by, one.reason) for one in admission.held}
    found |= {one.job: (one.state.value, None, one.reason) for one in admission.ended}
    for job, gate in admission.barred:
        dropped = gate.effect is Effect.DROP
        found[job] = ("dropped", None, gate.reason) if dropped else ("held", f"g:{gate.id}", gate.reason)
    waiting = {job.id: job.held_by for job in case.others if job.state == "held"}
    waiting |= {job: row[1] for job, row in found.items() if row[0] == "held"}
    age = {job.id: (job.created_at, job.id) for job in case.jobs}
    for one in admission.replacing:
        for job in [job for job, held_by in waiting.items() if held_by == line(*one.key) and age[job] < age[one.by]]:
            del waiting[job]
            found[job] = ("cancelled", None, one.reason)
    return found


def stopping(case: Case, admission: ClaimAdmission) -> dict[str, str]:
    """Holders that are asked to stop, and why."""
    holders = [((case.owner, key), job) for key, _, job in case.slots]
    holders += [(one.key, one.job) for one in admission.slots]
    age = {job.id: (job.created_at, job.id) for job in case.jobs}
    found: dict[str, str] = {}
    ended = expected(case, admission)
    for one in admission.replacing:
        for job in [job for key, job in holders if key == one.key and age[job] < age[one.by]]:
            if ended[one.by][2] != one.reason:
                found.setdefault(job, one.reason)
    return found


def tokens(case: Case, admission: ClaimAdmission) -> set[tuple[Any, ...]]:
    """(key, job, fence, at, late, until), as they are kept afterwards."""
    found = [(key, cases.NOBODY, 0, at, late, until) for key, at, late, until in case.starts]
    found += [(one.key[1], one.job, one.fence, NOW, one.late, one.until) for one in admission.tokens]
    windows = {key: window for (_, key), window in admission.looks_back.items()}
    return {(*row[:5], max(row[5], row[3] + row[4] + windows.get(row[0], 0))) for row in found}


def reservations(case: Case, admission: ClaimAdmission) -> dict[tuple[str, str], int]:
    found = {
        (job.id, key.name): job.reserved
        for job in case.jobs
        if job.reserved is not None
        for key in job.requirements.keys
    }
    found |= {(one.job, key): one.rank for (_, key), one in admission.reserving}
    gone = {job for job, row in expected(case, admission).items() if row[0] != "held"}
    return {name: latest for name, latest in found.items() if name[0] not in gone}


def opened(case: Case, admission: ClaimAdmission) -> set[str]:
    """Gates that jobs have closed for themselves and let go, because something else holds them or they have ended."""
    rows = expected(case, admission)
    away = {job for job, row in rows.items() if row[0] != "running" and not (row[1] or "").startswith("a:")}
    return {gate.id for gate, _ in case.gates if gate.job in away}


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_claims_are_admitted_as_the_model_says(rule_tables: Connection, seed: int) -> None:
    db = rule_tables
    random = Cases(seed)
    found = [random.case(number) for number in range(PIECE)]
    put_cases(db, found)
    ids = [job.id for case in found for job in case.candidates]
    answer = db.execute("SELECT job_id, slack FROM admit_claim(%s::uuid[], 'i', %s, false, %s)", (ids, NOW, STEP))
    slacks: dict[str, int | None] = dict(answer.fetchall())
    rows = db.execute(
        "SELECT id::text, state, held_by, reason, cancel FROM jobs"
        " UNION ALL SELECT id::text, state, NULL, reason, NULL FROM history"
    ).fetchall()
    gates = db.execute("SELECT id::text, job::text, opened_at IS NOT NULL FROM gates").fetchall()
    known = {gate.id for case in found for gate, _ in case.gates}
    fresh = {f"g:{gate}": f"g:alone-{job}-{NOW}" for gate, job, _ in gates if gate not in known}
    real = {job: (state, fresh.get(held_by, held_by), reason) for job, state, held_by, reason, _ in rows}
    cancels = {job: cancel for job, *_, cancel in rows if cancel is not None}
    open_now = {gate for gate, _, is_open in gates if is_open}
    by_owner: dict[str, dict[str, set[Any]]] = {}
    for table, columns in (
        ("slots", "key, number, job::text"),
        ("starts", "key, job::text, fence, at, late, until"),
        ("wanted", "job::text, key, latest"),
    ):
        for owner, *rest in db.execute(f"SELECT owner, {columns} FROM {table}".encode()):
            by_owner.setdefault(owner, {}).setdefault(table, set()).add(tuple(rest))
    for case in found:
        admission, there = case.decided(NOW), by_owner.get(case.owner, {})
        wanted = expected(case, admission)
        what = f"seed {seed}, {case}"
        assert {job.id: real[job.id] for job in case.candidates} == {
            job.id: wanted[job.id] for job in case.candidates
        }, what
        assert {job.id: slacks[job.id] for job in case.candidates if job.id in slacks} == {
            job: admission.slacks.get(job) for job in admission.taken
        }, what
        slots = {(key, number, job) for key, number, job in case.slots}
        slots |= {(one.key[1], one.number, one.job) for one in admission.slots}
        assert there.get("slots", set()) == slots, what
        assert there.get("starts", set()) == tokens(case, admission), what
        latest = {(job, key): place for job, key, place in there.get("wanted", set())}
        assert latest == reservations(case, admission), what
        assert {gate.id for gate, _ in case.gates} & open_now == opened(case, admission), what
        assert {job.id for job in case.others if real[job.id][0] == "cancelled"} == wanted.keys() - {
            job.id for job in case.candidates
        }, what
        assert {job.id: cancels[job.id] for job in case.jobs if job.id in cancels} == stopping(case, admission), what


# -- lines ------------------------------------------------------------------------------------------------------------
def a_line(random: Cases, number: int) -> Case:
    """Jobs in line for keys, jobs that were let go, and keys with some room or none."""
    case = random.case(number)
    case.candidates, case.gates = [], []
    rng, names = random.rng, ["a", "B", "ä%_\\"]
    for name in rng.sample(names, rng.randint(1, 3)):
        for _ in range(rng.randint(0, 4)):
            waiter = random.job(case.owner, [], state="held", held_by=line(case.owner, name))
            keys = {name: random.key(name)} | {one.name: one for one in random.keys(names)}
            if rng.random() < 0.03:
                del keys[name]  # its row was changed by hand
            waiter.requirements = Requirements(keys=tuple(keys[one] for one in sorted(keys)))
            case.others.append(waiter)
        for _ in range(rng.choice([0, 0, 1, 2])):
            going = random.job(case.owner, [], state="ready", held_by=line(case.owner, name))
            case.others.append(going)
    for _ in range(rng.choice([0, 0, 1, 3])):
        state = rng.choice(["held", "held", "ready"])
        case.others.append(random.job(case.owner, names, state=state, held_by=line(case.owner, RUNNING_QUOTA)))
    return case


def lines_of(case: Case, every: bool) -> list[tuple[Line, list[Job]]]:
    found = []
    for held_by in sorted({job.held_by for job in case.others if job.held_by is not None}):
        waiting = sorted((job.rank, job.id) for job in case.others if job.held_by == held_by and job.state == "held")
        jobs = [next(job for job in case.others if job.id == one) for _, one in waiting]
        on_way = 0 if every else sum(job.held_by == held_by and job.state == "ready" for job in case.others)
        if jobs:
            head = jobs[0]
            found.append((Line(held_by, on_way, case.owner, head.requirements.text, head.id, head.rank), jobs))
    return found


def token_back(case: Case, key: str, rate: Rate) -> list[int]:
    used = [at + late + rate.window for name, at, late, _ in case.starts
            if name == key and token_counts(at, late, rate.window, NOW)]  # fmt: skip
    return sorted(used, reverse=True)[rate.count - 1 : rate.count]


@pytest.mark.parametrize("seed", range(ROUNDS))
@pytest.mark.parametrize("every", [False, True])
def test_lines_go_on_as_the_model_says(rule_tables: Connection, seed: int, every: bool) -> None:
    db = rule_tables
    random = Cases(1_000 + seed)
    found = [a_line(random, number) for number in range(PIECE)]
    put_cases(db, found)
    freed = [one.name for case in found for one, _ in lines_of(case, every)]
    db.execute("INSERT INTO freed (held_by) SELECT unnest(%s::text[])", (freed,))
    moved, next_at, _ = db.execute("SELECT * FROM hand_on(%s, %s, 1000)", (every, NOW)).fetchone() or ()
    ready = {job for (job,) in db.execute("SELECT id::text FROM jobs WHERE state = 'ready'")}
    kept = {(owner, key, at): until for owner, key, at, until in db.execute("SELECT owner, key, at, until FROM starts")}
    count, instants = 0, []
    for case in found:
        states = case.states(NOW, case.others)
        windows: dict[str, int] = {}
        goes: set[str] = set()
        for one, jobs in lines_of(case, every):
            key = one.key
            state = states.get((case.owner, key.name)) or case._state(key.name)
            room = going_on(one, key, state)
            goes |= {job.id for job in jobs[: max(room, 0)]}
            rate = effective(key, state.limit).rate
            if rate is not None and room <= 0:
                instants += token_back(case, key.name, rate)
            if one.needs_key and (window := looks_back(key, state)) is not None:
                windows[key.name] = window
        count += len(goes)
        before = {job.id for job in case.others if job.state == "ready"}
        assert ready & {job.id for job in case.others} == goes | before, case
        for key_name, at, late, until in case.starts:
            assert kept[case.owner, key_name, at] == max(until, at + late + windows.get(key_name, 0)), case
    assert moved == count > 50
    assert next_at == min(instants)


# -- sweeps of gates --------------------------------------------------------------------------------------------------
def a_sweep(random: Cases, number: int) -> tuple[Case, set[str]]:
    """Jobs in all states and gates that fit some of them; returns the gates that are open by now too."""
    case, rng = Case(f"o{number}"), random.rng
    for _ in range(rng.choice([1, 1, 2, 3])):
        effect = rng.choice([Effect.PAUSE, Effect.PAUSE, Effect.DROP])
        gate = ClosedGate(random.job_id(), case.owner, random.match(), effect, f"why {rng.random()}")
        case.gates.append((gate, NOW - rng.randint(0, 2)))
    opened = {gate.id for gate, _ in case.gates if rng.random() < 0.3}
    held = [f"g:{one}" for one in (*opened, random.job_id())] + [line(case.owner, "a")]
    for _ in range(rng.randint(1, 6)):
        state = rng.choice(["ready", "ready", "ready", "held", "scheduled", "blocked", "running"])
        job = random.job(case.owner, [], state=state, held_by=rng.choice(held) if state == "held" else None)
        job.requirements = Requirements(labels=job.requirements.labels)
        case.others.append(job)
    return case, opened


def swept(case: Case, opened: set[str]) -> dict[str, Row]:
    """The jobs after a whole sweep: gates in the order in which they were closed."""
    gates = [gate for gate, _ in sorted(case.gates, key=lambda one: (one[1], one[0].id))]
    lines = {f"g:{gate.id}" for gate in gates} | {line(case.owner, "a")}
    rows: dict[str, Row] = {job.id: (job.state, job.held_by, None) for job in case.others}
    for job in case.others:
        if job.held_by is not None and job.held_by not in lines:  # the gate is gone
            rows[job.id] = ("ready", None, None)
    for gate in gates:
        for job in case.others:
            state, held_by, _ = rows[job.id]
            if gate.id in opened:
                rows[job.id] = ("ready", None, None) if held_by == f"g:{gate.id}" else rows[job.id]
            elif not gate.fits(job.candidate(job.requirements).subject) or state in ("running", "dropped"):
                continue
            elif gate.effect is Effect.DROP:
                rows[job.id] = ("dropped", None, gate.reason)
            elif state == "ready":
                rows[job.id] = ("held", f"g:{gate.id}", gate.reason)
    return rows


def sweep(db: Connection, most: int) -> dict[str, Row]:
    while db.execute("SELECT more FROM sweep_gates(%s, %s::integer)", (NOW, most)).fetchall() == [(True,)]:
        pass
    rows = db.execute(
        "SELECT id::text, state, held_by, reason FROM jobs UNION ALL SELECT id::text, state, NULL, reason FROM history"
    )
    return {job: (state, held_by, reason) for job, state, held_by, reason in rows.fetchall()}


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_sweep_holds_drops_and_releases_as_gates_fit(rule_tables: Connection, seed: int) -> None:
    found = [a_sweep(Cases(1_000 * seed + number), number) for number in range(PIECE)]
    put_cases(rule_tables, [case for case, _ in found])
    opened = [gate for _, some in found for gate in some]
    rule_tables.execute("UPDATE gates SET opened_at = %s WHERE id = ANY (%s::uuid[])", (NOW - 1, opened))
    real = sweep(rule_tables, 100_000)
    for case, some in found:
        assert {job.id: real[job.id] for job in case.others} == swept(case, some), f"seed {seed}, {case}"
    left = {gate for (gate,) in rule_tables.execute("SELECT id::text FROM gates").fetchall()}
    assert left == {gate.id for case, some in found for gate, _ in case.gates} - set(opened)


@pytest.mark.parametrize("most", [1, 7, 100])
def test_a_sweep_in_pieces_comes_to_the_same_states(rule_tables: Connection, most: int) -> None:
    """Pieces of several gates may overtake each other, so another of the fitting gates may hold a job."""
    found = [a_sweep(Cases(7_000 + number), number)[0] for number in range(PIECE // 5)]
    for case in found:
        case.others = [job for job in case.others if job.state != "held"]
    put_cases(rule_tables, found)
    real = sweep(rule_tables, most)
    for case in found:
        assert {job.id: real[job.id][0] for job in case.others} == {
            job: row[0] for job, row in swept(case, set()).items()
        }, case
        for job in case.others:
            fitting = {f"g:{gate.id}" for gate, _ in case.gates if gate.fits(job.candidate(job.requirements).subject)}
            assert real[job.id][1] is None or real[job.id][1] in fitting

"""Rules that PostgreSQL decides in SQL for speed, held against the pure functions of the model on random cases.

Hundreds of cases go into one call: each has an owner, a gate or a template to itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from rota.errors import InvalidInput
from rota.model import limits, rank
from rota.model.admission import ClaimAdmission
from rota.model.gates import ClosedGate, Effect, Match, Subject
from rota.model.graph import Child, EdgeState, Need, after_parents, edge_state, why_skipped
from rota.model.keys import Line, going_on, line, looks_back, token_counts
from rota.model.lifecycle import TERMINAL, State
from rota.model.limits import Rate, effective
from rota.model.requirements import Requirements
from rota.model.times import MINUTE, SECOND
from rota.store.postgres import PostgresStore
from rota.store.postgres.database import queries
from tests.store.postgres import rule_cases as cases
from tests.store.postgres.ranking import Place
from tests.store.postgres.rule_cases import NOW, STEP, Case, Cases, Connection, Job, put_cases, text

ROUNDS, PIECE = 8, 250  # calls, and cases in each


@pytest.fixture
def db(place: Place, store: PostgresStore) -> Iterator[Connection]:
    with place.connect() as connection:
        cases.clear(connection)
        cases.put_node(connection)
        yield connection


def run(db: Connection, place: Place, name: str, **values: object) -> list[tuple[Any, ...]]:
    """A named query of the store."""
    statement, names = queries(place.schema)[name]
    for number in range(len(names), 0, -1):
        statement = statement.replace("%", "%%") if number == len(names) else statement
        statement = statement.replace(f"${number}", f"%({names[number - 1]})s")
    found = db.execute(statement.encode(), values)
    return found.fetchall() if found.description else []


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
def test_claims_are_admitted_as_the_model_says(db: Connection, seed: int) -> None:
    random = Cases(seed)
    found = [random.case(number) for number in range(PIECE)]
    put_cases(db, found)
    ids = [job.id for case in found for job in case.candidates]
    answer = db.execute("SELECT id, slack FROM admit_claim(%s::uuid[], 'i', %s, false, %s)", (ids, NOW, STEP))
    slacks: dict[str, Any] = dict(answer.fetchall())
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


# -- gates ------------------------------------------------------------------------------------------------------------
TRICKY = [
    "a",
    "b",
    "*",
    "?",
    "[",
    "]",
    "%",
    "_",
    "\\",
    ".",
    "{",
    "}",
    "\n",
    " ",
    "'",
    '"',
    "ä",
    "\U0001f600",
    "aa",
    "ab",
]


def a_text(random: Cases, most: int = 6) -> str:
    found = "".join(random.rng.choices(TRICKY, k=random.rng.randint(0, most)))
    return found * 40 if random.rng.random() < 0.02 else found


def near(random: Cases, glob: str) -> str:
    """Random pairs seldom fit: a text made from the glob, mostly one that it fits."""
    kept = {"*": lambda: a_text(random, 3), "?": lambda: random.rng.choice(["x", "%", "\\", "ä"])}
    return "".join(kept[one]() if one in kept else one for one in glob) + random.rng.choice(["", "", "", "b", "%"])


def a_gate(random: Cases) -> tuple[ClosedGate, Subject]:
    rng = random.rng
    names = ["eve", "bob", "e%", "_ve", "ä"]
    labels = tuple(rng.sample(["x", "y", "x%", "\\", "ä"], rng.randint(0, 3)))
    owner, queue = rng.choice(names), rng.choice(["q", "p", "q_", "Q"])
    task = rng.choice([None, a_text(random), a_text(random)])
    match = Match(
        task,
        rng.choice([None, queue, "q_", "%"]),
        rng.choice([None, None, owner, "_ve"]),
        rng.choice([None, "x", "x%", "\\"]),
    )
    gate = ClosedGate(random.job_id(), rng.choice([None, owner, owner, "e_e"]), match, Effect.PAUSE, "why")
    shown = a_text(random) if task is None or rng.random() < 0.3 else near(random, task)
    return gate, Subject(owner, shown, queue, labels)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_gates_fit_as_the_model_says(db: Connection, seed: int) -> None:
    random = Cases(seed)
    pairs = [a_gate(random) for _ in range(2 * PIECE)]
    case = Case("o", gates=[(gate, NOW) for gate, _ in pairs])
    put_cases(db, [case])
    jobs = [one for _, one in pairs]
    found = db.execute(
        "SELECT fits(g, c.owner, c.task, c.queue, c.requirements)"
        " FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::text[]) WITH ORDINALITY"
        " AS c(gate, owner, task, queue, requirements, place) JOIN gates g ON g.id = c.gate ORDER BY place",
        (
            [gate.id for gate, _ in pairs], [one.owner for one in jobs], [one.task for one in jobs],
            [one.queue for one in jobs], [Requirements(labels=tuple(one.labels)).text for one in jobs],
        ),
    ).fetchall()  # fmt: skip
    for (gate, job), (fits,) in zip(pairs, found, strict=True):
        assert fits == gate.fits(job), (gate, job)
    assert 20 < sum(fits for (fits,) in found) < len(found) - 20


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
def test_lines_go_on_as_the_model_says(db: Connection, seed: int, every: bool) -> None:
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
            if (window := looks_back(key, state)) is not None:
                windows[key.name] = window
        count += len(goes)
        before = {job.id for job in case.others if job.state == "ready"}
        assert ready & {job.id for job in case.others} == goes | before, case
        for key_name, at, late, until in case.starts:
            assert kept[case.owner, key_name, at] == max(until, at + late + windows.get(key_name, 0)), case
    assert moved == count > 50
    assert next_at == min(instants)


# -- edges ------------------------------------------------------------------------------------------------------------
FAMILIES = 60  # of at most three parents: one look at the list takes 200


@pytest.mark.parametrize("seed", range(20))
def test_edges_are_settled_as_the_model_says(db: Connection, place: Place, seed: int) -> None:
    random, rng = Cases(seed), Cases(seed + 77).rng
    children: list[tuple[Job, Child, dict[str, tuple[Need, State | None]]]] = []
    parents: list[tuple[str, str, State]] = []
    for _ in range(FAMILIES):
        family: dict[str, tuple[Need, State | None]] = {}
        for _ in range(rng.randint(1, 3)):
            state = rng.choice([None, State.SUCCEEDED, State.SUCCEEDED, *State])
            job = random.job_id()
            family[job] = (rng.choice([*Need]), state)
            if state is not None:
                parents.append((job, rng.choice(["load", "é%(x)"]), state))
        state = rng.choice([State.BLOCKED] * 5 + [State.READY, State.HELD])
        run_at, priority = NOW + rng.choice([-MINUTE, -1, 0, 1, MINUTE]), rng.randint(0, 9)
        waits = len(family) + rng.choice([0, 0, 0, 1])
        child = Job(random.job_id(), "o", state=state.value)
        children.append((child, Child(state, waits, run_at, priority, NOW), family))
    put_family(db, children, parents)
    for _ in range(3):
        db.execute("SELECT * FROM settle(NULL, %s, %s, 100000)", (NOW, STEP))
    rows = db.execute("SELECT id::text, state, waits, run_at, priority, rank FROM jobs").fetchall()
    live = {job: Child(State(state), *rest) for job, state, *rest in rows}
    ended: dict[str, Any] = dict(db.execute("SELECT id::text, (state, reason)::text FROM history").fetchall())
    skipped: dict[str, Any] = dict(
        db.execute("SELECT id::text, reason FROM history WHERE state = 'skipped'").fetchall()
    )
    marks = {(c, p): state for c, p, state in db.execute("SELECT child::text, parent::text, state FROM edges")}
    tasks = {job: task for job, task, _ in parents}
    for child, before, family in children:
        states = {job: edge_state(need, state) for job, (need, state) in family.items()}
        assert {job: marks[child.id, job] for job in family} == {job: one.value for job, one in states.items()}
        broken = sorted(job for job, one in states.items() if one is EdgeState.BROKEN)
        met = sum(one is EdgeState.MET for one in states.values())
        if broken and before.state is State.BLOCKED:
            need, state = family[broken[0]]
            why = why_skipped(broken[0], need, tasks.get(broken[0]), None if state is None else state.value)
            assert skipped.get(child.id) == why, (before, family, ended.get(child.id))
        else:
            assert live[child.id] == (before if broken or not met else after_parents(before, met, NOW, STEP)), family


def put_family(db: Connection, children: list[Any], parents: list[tuple[str, str, State]]) -> None:
    cases.put_jobs(db, [child for child, _, _ in children])
    alive = [(job, task, state) for job, task, state in parents if state not in TERMINAL]
    cases.put_jobs(db, [Job(job, "o", state=state.value, task=task) for job, task, state in alive])
    with db.cursor() as cursor:
        cursor.executemany(
            "UPDATE jobs SET waits = %s, run_at = %s, priority = %s, rank = %s WHERE id = %s",
            [(one.waits, one.run_at, one.priority, one.rank, child.id) for child, one, _ in children],
        )
        ended = [(job, task, state) for job, task, state in parents if state in TERMINAL]
        cases.put_jobs(db, [Job(job, "o", state="ready", task=task) for job, task, _ in ended])
        ids = [job for job, _, _ in ended]
        cursor.execute("SELECT put_away(%s::uuid[], 'cancelled', %s::text[], %s)", (ids, ["why"] * len(ids), NOW))
        rows = [(state.value, state is State.FAILED, job) for job, _, state in ended]
        cursor.executemany("UPDATE history SET state = %s, lasting = %s WHERE id = %s", rows)
        edges = [(child.id, job, need.value, NOW) for child, _, family in children for job, (need, _) in family.items()]
        cursor.executemany("INSERT INTO edges (child, parent, need, at) VALUES (%s, %s, %s, %s)", edges)
        cursor.executemany("INSERT INTO settling (job) VALUES (%s)", [(parent,) for _, parent, _, _ in edges])


# -- templates of keys ------------------------------------------------------------------------------------------------
TRY = """
CREATE FUNCTION pg_temp.try_fill(template text, args jsonb) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN fill(template, args);
EXCEPTION WHEN invalid_parameter_value THEN
    RETURN NULL;
END $$"""


def a_template(random: Cases) -> str:
    pieces = ["user:", "a b", " ", "{{", "}}", "é", "%s", "\\", "{a}", "{a}", "{b}", "{a.b}", "{a.0}", "{c-d}", "{é}"]
    pieces += ["{x.y.z}", "{a.b.c}", "\U0001f600", "{", "}", "{ a}", "{a.}", "{}", "{a..b}", "\n"]
    return "".join(random.rng.choices(pieces, k=random.rng.randint(0, 4))) * random.rng.choice([1] * 30 + [60])


def a_value(random: Cases, depth: int = 0) -> object:
    rng = random.rng
    plain = [None, True, False, 0, -7, 10**30, 10**150, 1.5, -0.0, 2.0, "", "text", " x", "ä%{a}\\", "a\nb", "1.5", "e"]
    if depth < 3 and rng.random() < 0.5:
        names = ["a", "b", "c", "c-d", "0", "é", "y", "z"]
        return {name: a_value(random, depth + 1) for name in rng.sample(names, 3)}
    return [a_value(random, 3)] if rng.random() < 0.1 else rng.choice(plain)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_templates_are_filled_as_the_model_says(db: Connection, seed: int) -> None:
    random = Cases(seed)
    pairs = [(a_template(random), {name: a_value(random) for name in ("a", "b", "c-d", "x", "é")}) for _ in range(500)]
    db.execute(TRY)
    found = db.execute(
        "SELECT pg_temp.try_fill(c.template, c.args::jsonb) FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY"
        " AS c(template, args, place) ORDER BY place",
        ([template for template, _ in pairs], [text(arguments) for _, arguments in pairs]),
    ).fetchall()
    for (template, arguments), (filled,) in zip(pairs, found, strict=True):
        try:
            wanted = limits.fill(template, arguments)
        except InvalidInput:
            wanted = None
        assert filled == wanted, (template, arguments)
    assert sum(filled is not None for (filled,) in found) > 50


# -- rank -------------------------------------------------------------------------------------------------------------
def test_ranks_change_as_the_model_says(db: Connection, place: Place) -> None:
    """A new ageing step, another priority, another feedback level: a rank moves by that and nothing else."""
    rng = Cases(5).rng
    steps = [None, 0, 1, MINUTE, 7 * SECOND, rank.STRICT]
    random = Cases(6)
    for number, step in enumerate(steps):
        db.execute("INSERT INTO queues (name, step, feedback) VALUES (%s, %s, true)", (f"q{number}", step))
    levels = {f"o{number}/t": number for number in range(5)}
    for queue, (flow, level) in itertools.product(range(len(steps)), levels.items()):
        db.execute("INSERT INTO flows (queue, flow, used, level) VALUES (%s, %s, 1, %s)", (f"q{queue}", flow, level))
    jobs = [
        Job(random.job_id(), f"o{rng.randint(0, 4)}", rank=random.rank(), queue=f"q{rng.randint(0, 5)}",
            own_step=rng.choice(steps)) for _ in range(600)
    ]  # fmt: skip
    cases.put_jobs(db, jobs)
    priorities = {job.id: rng.randint(0, 9) for job in jobs}
    now_at = {job.id: rng.randint(0, 4) for job in jobs}
    with db.cursor() as cursor:
        rows = [(priorities[job.id], now_at[job.id], job.id) for job in jobs]
        cursor.executemany("UPDATE jobs SET priority = %s, level = %s WHERE id = %s", rows)
    ids = [job.id for job in jobs]
    wanted = {job.id: job.rank for job in jobs}

    def check(what: str) -> None:
        assert dict(db.execute("SELECT id::text, rank FROM jobs").fetchall()) == wanted, what

    run(db, place, "rank_those", ids=ids, step=STEP)
    for job in jobs:
        new = steps[int(job.queue[1:])]
        old_step, new_step = STEP if job.own_step is None else job.own_step, STEP if new is None else new
        wanted[job.id] = rank.ranked_by(wanted[job.id], priorities[job.id], old_step, new_step)
        job.own_step = new
    check("steps")
    run(db, place, "put_back", ids=ids, step=STEP, most=10_000)
    for job in jobs:
        behind = max(now_at[job.id], levels[f"{job.owner}/t"])
        wanted[job.id] = rank.shifted(wanted[job.id], behind - now_at[job.id], STEP)
        now_at[job.id] = behind
    check("put back")
    run(db, place, "put_forward", step=STEP, most=10_000)
    for job in jobs:
        if now_at[job.id] > levels[f"{job.owner}/t"]:
            wanted[job.id] = rank.shifted(wanted[job.id], -now_at[job.id], STEP)
    check("put forward")
    run(db, place, "reprioritise", ids=ids, priority=3, step=STEP)
    for job in jobs:
        step = STEP if job.own_step is None else job.own_step
        wanted[job.id] = rank.shifted(wanted[job.id], 3 - priorities[job.id], step)
    check("priorities")

"""Rules that PostgreSQL decides in SQL for speed, held against the pure functions of the model on random cases.

Hundreds of cases go into one call: each has an owner, a gate or a template to itself.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from rota.errors import InvalidInput
from rota.model import limits, rank
from rota.model.gates import ClosedGate, Effect, Match, Subject
from rota.model.graph import (
    NOTHING_FAILED,
    Child,
    EdgeState,
    Need,
    ParentEnd,
    SkipCause,
    after_parents,
    edge_state,
    is_unneeded,
    skip_cause,
    why_skipped,
)
from rota.model.lifecycle import TERMINAL, State
from rota.model.limits import Rate
from rota.model.requirements import Requirements, read_requirements
from rota.model.times import MINUTE, SECOND
from rota.store.postgres.database import queries
from tests.store.postgres import rule_cases as cases
from tests.store.postgres.ranking import Place
from tests.store.postgres.rule_cases import NOW, STEP, Case, Cases, Connection, Job, put_cases, text

ROUNDS, PIECE = 8, 500  # calls, and cases in each


def run(db: Connection, place: Place, name: str, **values: object) -> list[tuple[Any, ...]]:
    """A named query of the store."""
    statement, names = queries(place.schema)[name]
    for number in range(len(names), 0, -1):
        statement = statement.replace("%", "%%") if number == len(names) else statement
        statement = statement.replace(f"${number}", f"%({names[number - 1]})s")
    found = db.execute(statement.encode(), values)
    return found.fetchall() if found.description else []


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


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_gates_fit_as_the_model_says(rule_tables: Connection, seed: int) -> None:
    db = rule_tables
    random = Cases(seed)
    pairs = [a_gate(random) for _ in range(PIECE)]
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


# -- edges ------------------------------------------------------------------------------------------------------------
FAMILIES = 60  # of at most three parents: one look at the list takes 200


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(20))
def test_edges_are_settled_as_the_model_says(rule_tables: Connection, place: Place, seed: int) -> None:
    db = rule_tables
    random, rng = Cases(seed), Cases(seed + 77).rng
    children: list[tuple[Job, Child, dict[str, tuple[Need, ParentEnd]]]] = []
    parents: list[tuple[str, str, ParentEnd]] = []
    for _ in range(FAMILIES):
        family: dict[str, tuple[Need, ParentEnd]] = {}
        needs = [*Need] if rng.random() < 0.6 else [Need.TROUBLE, Need.TROUBLE, Need.SUCCESS]
        for _ in range(rng.randint(1, 3)):
            state = rng.choice([None, State.SUCCEEDED, State.SUCCEEDED, *State])
            job = random.job_id()
            end = ParentEnd(state, rng.choice([None, *SkipCause]) if state is State.SKIPPED else None)
            family[job] = (rng.choice(needs), end)
            if state is not None:
                parents.append((job, rng.choice(["load", "é%(x)"]), end))
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
    ended = {job: rest for job, *rest in db.execute("SELECT id::text, state, reason, skip_cause FROM history")}
    marks = {(c, p): state for c, p, state in db.execute("SELECT child::text, parent::text, state FROM edges")}
    tasks = {job: task for job, task, _ in parents}
    for child, before, family in children:
        states = {job: edge_state(need, end) for job, (need, end) in family.items()}
        assert {job: marks[child.id, job] for job in family} == {job: one.value for job, one in states.items()}
        broken = sorted(job for job, one in states.items() if one is EdgeState.BROKEN)
        done = sum(one is not EdgeState.OPEN for one in states.values())
        unneeded = is_unneeded([(need, states[job]) for job, (need, _) in family.items()])
        after = before if broken or not done else after_parents(before, done, NOW, STEP, unneeded)
        if broken and before.state is State.BLOCKED:
            need, end = family[broken[0]]
            why = why_skipped(broken[0], need, tasks.get(broken[0]), None if end.state is None else end.state.value)
            cause = skip_cause([family[job] for job in broken])
            assert ended.get(child.id) == ["skipped", why, cause], (before, family)
        elif after.state is State.SKIPPED:
            assert ended.get(child.id) == ["skipped", NOTHING_FAILED, SkipCause.UNNEEDED], (before, family)
        else:
            assert live[child.id] == after, family


def put_family(db: Connection, children: list[Any], parents: list[tuple[str, str, ParentEnd]]) -> None:
    cases.put_jobs(db, [child for child, _, _ in children])
    alive = [(job, task, end.state) for job, task, end in parents if end.state and end.state not in TERMINAL]
    cases.put_jobs(db, [Job(job, "o", state=state.value, task=task) for job, task, state in alive])
    with db.cursor() as cursor:
        cursor.executemany(
            "UPDATE jobs SET waits = %s, run_at = %s, priority = %s, rank = %s WHERE id = %s",
            [(one.waits, one.run_at, one.priority, one.rank, child.id) for child, one, _ in children],
        )
        ended = [(job, task, end) for job, task, end in parents if end.state in TERMINAL]
        cases.put_jobs(db, [Job(job, "o", state="ready", task=task) for job, task, _ in ended])
        ids = [job for job, _, _ in ended]
        cursor.execute("SELECT put_away(%s::uuid[], 'cancelled', %s::text[], %s)", (ids, ["why"] * len(ids), NOW))
        rows = [
            (end.state and end.state.value, end.state is State.FAILED, end.cause and end.cause.value, job)
            for job, _, end in ended
        ]
        cursor.executemany("UPDATE history SET state = %s, lasting = %s, skip_cause = %s WHERE id = %s", rows)
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


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_templates_are_filled_as_the_model_says(rule_tables: Connection, seed: int) -> None:
    db = rule_tables
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


def a_task(random: Cases) -> tuple[dict[str, Any], Requirements]:
    """The options of a task, and what an order of it needs."""
    rng = random.rng
    full = rng.choice([*limits.Policy])
    info: dict[str, Any] = {"full": full.value, "labels": rng.choice([[], ["x", "y"]])}
    keys: list[limits.Key] = []
    if rng.random() < 0.4:
        info["exclusive"] = rng.choice(["a", "k:{n}", "Z{n}"])
        keys.append(limits.Key(limits.fill(info["exclusive"], {"n": 7}), 1, None, full))
    found = [(rng.choice(["a", "k:{n}", "ä", "B"]), *random.bounds()) for _ in range(rng.randint(0, 3))]
    info["limits"] = [[name, count, rate and [rate.count, rate.window]] for name, count, rate in found]
    keys += [limits.Key(limits.fill(name, {"n": 7}), count, rate, full) for name, count, rate in found]
    if rng.random() < 0.3:
        info["rate"] = [rng.randint(1, 9), rng.choice([SECOND, MINUTE])]
        keys.append(limits.Key("task:t", None, Rate(*info["rate"]), full))
    flow = rng.choice([None, "bulk", "of:{n}"])
    filled = flow and limits.fill(flow, {"n": 7})
    return info | {"flow": flow}, Requirements(labels=tuple(info["labels"]), keys=limits.keys(keys), flow=filled)


def test_orders_by_sql_need_the_keys_that_the_model_says(rule_tables: Connection) -> None:
    """Of the same name twice the stricter counts."""
    db = rule_tables
    random = Cases(3)
    found = [a_task(random) for _ in range(1_000)]
    db.execute("INSERT INTO tasks (name, info, seen_at) VALUES ('t', '{}', 0)")
    db.execute(
        "CREATE FUNCTION pg_temp.needed(options text) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN"
        " UPDATE tasks SET info = options WHERE name = 't'; RETURN requirements_of('t', '{\"n\": 7}'); END $$"
    )
    rows = db.execute(
        "SELECT pg_temp.needed(c.info) FROM unnest(%s::text[]) WITH ORDINALITY AS c(info, place) ORDER BY place",
        ([text(info) for info, _ in found],),
    ).fetchall()
    for (info, wanted), (answer,) in zip(found, rows, strict=True):
        assert read_requirements(answer.get("requirements")) == wanted, info
        assert answer.get("special", False) == wanted.special, info
        assert answer.get("line") == (wanted.keys[0].name if wanted.patient else None), info


# -- rank -------------------------------------------------------------------------------------------------------------
def test_ranks_change_as_the_model_says(rule_tables: Connection, place: Place) -> None:
    """A new ageing step, another priority, another feedback level: a rank moves by that and nothing else."""
    db = rule_tables
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

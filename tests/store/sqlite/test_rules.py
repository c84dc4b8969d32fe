"""Rules that SQLite carries out in SQL, held against the pure functions of the model on random rows: ranks that change
with an ageing step, a priority or a feedback level."""

from __future__ import annotations

import json
import random
from typing import Any

import apsw

from rota.model import rank
from rota.model.times import MINUTE, SECOND
from rota.store import sql_files
from rota.store.sqlite.database import queries

NOW, STEP, JOBS = 1_800_000_000_000_000, MINUTE, 1_000
STEPS = [None, 0, 1, MINUTE, 7 * SECOND, rank.STRICT]


def usual(step: int | None) -> int:
    return STEP if step is None else step


def test_ranks_change_as_the_model_says() -> None:
    rng = random.Random(5)
    db = apsw.Connection(":memory:")
    for _, text in sql_files.migrations("sqlite"):
        db.execute(text)
    for number, step in enumerate(STEPS):
        db.execute("INSERT INTO queues (name, step, feedback) VALUES (?, ?, 1)", (f"q{number}", step))
        for level in range(5):
            flow = (f"q{number}", f"o{level}/t", level)
            db.execute("INSERT INTO flows (queue, flow, used, level) VALUES (?, ?, 1, ?)", flow)
    jobs: list[dict[str, Any]] = [
        {"seq": seq, "owner": rng.randint(0, 4), "queue": rng.randint(0, 5), "priority": rng.randint(0, 9),
         "rank": NOW + rng.randint(0, MINUTE), "level": rng.randint(0, 4), "own_step": rng.choice(STEPS)}
        for seq in range(1, JOBS + 1)
    ]  # fmt: skip
    db.executemany(
        "INSERT INTO jobs (seq, id, owner, state, queue, kind, task, priority, rank, run_at, created_at, level,"
        " own_step) VALUES (:seq, 'j' || :seq, 'o' || :owner, 'ready', 'q' || :queue, 'command', 't', :priority, :rank,"
        " 0, 0, :level, :own_step)",
        jobs,
    )

    def check(what: str) -> None:
        found = {seq: place for seq, place in db.execute("SELECT seq, rank FROM jobs")}  # noqa: C416
        assert found == {one["seq"]: one["rank"] for one in jobs}, what

    for number, step in enumerate(STEPS[:3]):  # the rest are strays
        seqs = json.dumps([one["seq"] for one in jobs if one["queue"] == number])
        db.execute(queries()["rank_those"], {"seqs": seqs, "step": step, "usual": STEP}).fetchall()
    for number in (3, 4):
        values = {"queue": f"q{number}", "step": STEPS[number], "usual": STEP, "limit": -1, "reach": -1}
        db.execute(queries()["rank_anew"], values).fetchall()
    db.execute(queries()["rank_strays"], {"usual": STEP, "limit": -1}).fetchall()
    for one in jobs:
        new = STEPS[one["queue"]]
        if one["queue"] < 5 or one["own_step"] is not None:
            one["rank"] = rank.ranked_by(one["rank"], one["priority"], usual(one["own_step"]), usual(new))
            one["own_step"] = new
    check("steps")
    for number, level in ((number, level) for number in range(6) for level in range(5)):
        values = {
            "queue": f"q{number}",
            "kind": "command",
            "owner": f"o{level}",
            "task": "t",
            "flow": "t",
            "level": level,
        }
        db.execute(queries()["put_back"], {**values, "step": STEP, "limit": -1}).fetchall()
    for one in jobs:
        behind = max(one["level"], one["owner"])
        one["rank"] = rank.shifted(one["rank"], behind - one["level"], STEP)
        one["level"] = behind
    check("put back")
    db.execute(queries()["put_forward"], {"step": STEP, "limit": -1}).fetchall()
    for one in jobs:
        if one["level"] > one["owner"]:
            one["rank"] = rank.shifted(one["rank"], -one["level"], STEP)
    check("put forward")
    ids = json.dumps([f"j{one['seq']}" for one in jobs])
    db.execute(queries()["reprioritise"], {"ids": ids, "priority": 3, "step": STEP}).fetchall()
    for one in jobs:
        one["rank"] = rank.shifted(one["rank"], 3 - one["priority"], usual(one["own_step"]))
    check("priorities")

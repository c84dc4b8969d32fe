"""A crowd that has to be let in: two hundred thousand jobs behind gates and keys, and as many in queues with rules."""

from __future__ import annotations

from typing import NamedTuple

from rota.model.rank import AGEING_STEP
from rota.model.times import DAY, HOUR, SECOND
from tests.store.postgres.crowd import ADMISSION, NOW, SHARED, sql_id, uid

HELD, KEYS, LANE = 100_000, 2_000, 50_000
# Sorts of jobs, each with ids of its own.
GATED, WAITS, HOLDS, PLAIN, FREE, FULL, SHUT, FED, BACK, STEPPED, ENDED, LONG, LATE, HASTY = range(51, 65)
GATE, LAST = uid(50, 1), "ffffffff-ffff-ffff-ffff-ffffffffffff"


class Sort(NamedTuple):
    number: int
    state: str
    queue: str
    many: int
    task: str = "'t'"
    requirements: str = "NULL"  # those with any need keys
    held_by: str = "NULL"
    more: str = "0, NULL::bigint"  # level, own_step


def keyed(name: str) -> str:
    return f"""'{{"keys":[["' || {name} || '",1,null,"wait"]]}}'"""


def rows(sort: Sort) -> str:
    node = "'inc0'" if sort.state == "running" else "NULL"
    return f"""
INSERT INTO rota.jobs ({SHARED}, fence, tries, node, claimed_at, started_at, {ADMISSION})
SELECT {sql_id(sort.number)}, 'local', '{sort.state}', '{sort.queue}', 'command', {sort.task}, 5, {NOW} - {HOUR} + i,
       {NOW} - {HOUR}, NULL, {NOW} - {HOUR}, '{{}}', 'd', '{{}}', '{{}}', 1, 1, {node}, {NOW}, {NOW},
       {sort.requirements}, {sort.requirements} IS NOT NULL, {sort.held_by}, {sort.more}
FROM generate_series(1, {sort.many}) AS i"""


LINE = f"'key' || i % {KEYS}"
SORTS = (
    Sort(GATED, "held", "q", HELD, "'gated'", held_by=f"'g:{GATE}'"),
    Sort(WAITS, "held", "keyed", HELD, requirements=keyed(LINE), held_by=f"'k:local:' || {LINE}"),
    Sort(HOLDS, "running", "keyed", KEYS, requirements=keyed(LINE)),
    Sort(LONG, "running", "keyed", 1, requirements=keyed("'long'")),
    Sort(LATE, "held", "keyed", LANE, requirements=keyed("'long'"), held_by="'k:local:long'"),
    Sort(PLAIN, "ready", "q", LANE),
    Sort(FREE, "ready", "keyed", LANE, requirements=keyed("'free' || i")),
    Sort(FULL, "ready", "full", 1_000, requirements=keyed(LINE)),
    Sort(SHUT, "ready", "shut", LANE, "'gated'"),
    Sort(FED, "ready", "fed", LANE, "'t' || i % 100"),
    Sort(BACK, "ready", "fed", LANE, "'back'", more="1, NULL::bigint"),
    Sort(STEPPED, "ready", "stepped", LANE, more=f"0, CASE WHEN i > 100 THEN {2 * AGEING_STEP} END"),
    Sort(HASTY, "ready", "hasty", LANE, more=f"0, {SECOND}"),
)
CROWD = [
    f"""INSERT INTO rota.nodes (incarnation, id, roles, queues, tasks, version, state, started_at, seen_at, lease, lock)
        VALUES ('inc0', 'box', '["worker"]', '{{"q":4}}', '{{t}}', '1', 'live', {NOW}, {NOW}, 1, 1)""",
    *map(rows, SORTS),
    f"""INSERT INTO rota.history ({SHARED}, fence, tries, node, started_at, outcome, finished_at, lasting)
        SELECT {sql_id(ENDED)}, 'local', 'succeeded', 'q', 'command', 't', 5, {NOW}, {NOW}, NULL, {NOW}, '{{}}', 'd',
               '{{}}', '{{}}', 1, 1, 'n', {NOW}, 'succeeded', {NOW} - {HOUR} + i, false
        FROM generate_series(1, {HELD}) AS i""",
    f"""INSERT INTO rota.gates (id, task, task_like, effect, reason, author, created_at, swept)
        VALUES ('{GATE}', 'gated', 'gated', 'pause', 'why', 'local', {NOW} - {HOUR}, '{LAST}')""",
    f"""INSERT INTO rota.slots SELECT 'local', {LINE}, 1, {sql_id(HOLDS)}, 1, {NOW}
        FROM generate_series(1, {KEYS}) AS i""",
    f"INSERT INTO rota.slots VALUES ('local', 'long', 1, '{uid(LONG, 1)}', 1, {NOW})",
    f"""INSERT INTO rota.starts SELECT 'local', 'rate' || i % {KEYS}, {sql_id(ENDED)}, 1, {NOW} - {DAY} + i,
               500000, {NOW} - {DAY} + i FROM generate_series(1, {HELD}) AS i""",
    f"INSERT INTO rota.limits SELECT 'local', 'set' || i, 1 FROM generate_series(1, {KEYS}) AS i",
    f"""INSERT INTO rota.queues (name, feedback, boosted_at, step)
        VALUES ('fed', true, {NOW}, NULL), ('stepped', false, {NOW}, {2 * AGEING_STEP})""",
    # One flow at the front of the line has fallen; the other, which stands behind, has fallen before.
    f"INSERT INTO rota.flows VALUES ('fed', 'local/t1', {15 * SECOND}, 1), ('fed', 'local/back', {15 * SECOND}, 1)",
    f"""INSERT INTO rota.flows SELECT 'other', 'local/x' || i, 1, 0 FROM generate_series(1, {KEYS}) AS i""",
]

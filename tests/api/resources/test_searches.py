"""Queries over HTTP: lists, counts, facets, completion, and changes of many jobs."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from rota.model.access import ROLES, Permission, Role
from rota.model.outcome import Failed, Problem
from rota.model.principal import Principal
from rota.model.query.fields import JOB_FIELDS, SORTABLE
from rota.model.requirements import Requirements
from rota.store.search import pages, walk
from tests.api.caller import Caller, Reply, secret
from tests.api.resources.conftest import ANN
from tests.api.resources.test_jobs import listed
from tests.contracts.timetables import keep, move_on
from tests.contracts.world import DONE, World


async def ask(caller: Caller, path: str, key: str = secret("admin"), /, **query: Any) -> Reply:
    return await caller.get(f"/api/v1/{path}?{urlencode(query, doseq=True)}", key=key)


async def found(caller: Caller, path: str = "jobs", **query: Any) -> list[str]:
    """The ids of all pages."""
    return await listed(caller, f"/api/v1/{path}?{urlencode(query)}")


async def arrange(world: World) -> tuple[list[str], list[str]]:
    """Three mails that failed after 1, 2 and 3 seconds, a minute apart, and two reports that wait."""
    mails = await world.several(3, ANN, task="mail.send", queue="mail", requirements=Requirements(labels=("slow",)))
    node = await world.node()
    for number in range(1, 4):
        (claimed,) = await node.claim(1, "mail")
        world.clock.advance(number)
        await node.finish(claimed, Failed(Problem("E", f"connection {number} refused"), fatal=True))
        world.clock.advance(60 - number)
    return mails, await world.several(2, ANN, task="report")


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search examines a few jobs for each page."""
    monkeypatch.setattr(walk, "MOST_ROWS", 4)
    monkeypatch.setattr(pages, "FIRST", 2)


# -- lists -----------------------------------------------------------------------------------------------------------
async def test_a_query_stands_beside_the_other_conditions(world: World, caller: Caller) -> None:
    mails, reports = await arrange(world)
    assert await found(caller, q="state:failed task:mail.*") == mails[::-1]
    assert await found(caller, q="refused", task="mail.*") == mails[::-1]
    assert await found(caller, q="refused", task="report") == []
    assert await found(caller, q="state:live OR error~'2 ref'".replace("'", '"')) == [*reports[::-1], mails[1]]
    assert await found(caller, q="") == await found(caller, q="*") == [*reports[::-1], *mails[::-1]]
    assert await found(caller, "dead", q="took>=2s") == mails[:0:-1]
    assert await found(caller, "dead", q="task:report") == []


async def test_orders_go_through_all_pages(world: World, caller: Caller) -> None:
    mails, reports = await arrange(world)
    assert await found(caller, sort="-took", q="state:failed") == mails[::-1]
    assert await found(caller, sort="took", q="state:failed") == mails
    assert await found(caller, "dead", sort="took") == mails
    assert await found(caller, sort="-finished") == [*mails[::-1], *reports[::-1]]
    assert await found(caller, sort="id") == [*mails, *reports]
    for field in SORTABLE:
        assert set(await found(caller, sort=f"-{field}")) == {*mails, *reports}, field


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("jobs", {"q": "finished>-1h"}),
        ("dead", {"q": "finished>-1h"}),
        ("jobs", {"q": "finished>-1h", "sort": "-took"}),
        ("jobs", {"q": "-finished:* OR finished>-1h", "state": "failed", "sort": "-finished"}),
    ],
)
async def test_all_pages_mean_the_same_instants(world: World, caller: Caller, path: str, query: dict[str, str]) -> None:
    mails, _ = await arrange(world)
    world.clock.advance(57 * 60)  # the first has ended an hour ago
    first = (await ask(caller, path, limit=1, **query)).json
    world.clock.advance(10 * 60)
    rest = (await ask(caller, path, cursor=first["next"], **query)).json
    assert [one["id"] for one in (first["items"] + rest["items"])] == mails[::-1]
    assert (await ask(caller, path, **query)).json["items"] == [], "a new search counts from now"


async def test_all_pages_of_groups_mean_the_same_instants(world: World, caller: Caller) -> None:
    node = await world.node()
    for text in ("no way", "no room", "no user"):
        await world.one(ANN)
        await node.run(Failed(Problem("E", text), fatal=True))
        world.clock.advance(60)
    query = {"q": "finished>-150s", "older_than": "30s"}
    first = (await ask(caller, "dead/groups", limit=1, **query)).json
    world.clock.advance(600)
    rest = (await ask(caller, "dead/groups", cursor=first["next"], **query)).json
    assert [one["title"] for one in (first["items"] + rest["items"])] == ["E: no user", "E: no room"]
    assert (await ask(caller, "dead/groups", **query)).json["items"] == []


async def test_groups_of_the_dead_letters_that_fit(world: World, caller: Caller) -> None:
    await arrange(world)
    (group,) = (await ask(caller, "dead/groups", q="took<3s error~refused")).json["items"]
    assert group["count"] == 2
    reply = await ask(caller, "dead/groups", q="refused")
    assert (reply.status, reply.json["code"], reply.json["problem"]) == (
        400, "invalid_query", "a list of groups takes conditions on fields only, such as error~refused",
    )  # fmt: skip


@pytest.mark.usefixtures("small_steps")
async def test_a_page_may_be_short_or_empty_and_not_the_last(world: World, caller: Caller) -> None:
    jobs = await world.several(30, ANN)
    node = await world.node()
    await node.run(Failed(Problem("E", "connection refused"), fatal=True), jobs[0])
    shown, cursor, examined, lengths = list[str](), dict[str, str](), 0, list[int]()
    while True:
        page = (await ask(caller, "jobs", q="refused -label:x", limit=10, **cursor)).json
        shown += [one["id"] for one in page["items"]]
        lengths.append(len(page["items"]))
        examined += page["progress"]["examined"]
        if page["next"] is None:
            break
        assert page["progress"]["back_to"] is not None
        cursor = {"cursor": page["next"]}
    assert shown == [jobs[0]]
    assert lengths[0] == 0
    assert examined >= 1


async def test_a_cursor_is_good_for_its_search_alone(world: World, caller: Caller) -> None:
    await arrange(world)
    cursor = (await ask(caller, "jobs", q="state:failed", sort="-took", limit=1)).json["next"]
    others: tuple[dict[str, Any], ...] = (
        {"q": "state:failed"},
        {"q": "state:ready", "sort": "-took"},
        {"sort": "-took"},
    )
    for other in others:
        reply = await ask(caller, "jobs", cursor=cursor, **other)
        assert (reply.status, reply.json["what"]) == (400, "cursor"), other
    same = await ask(caller, "jobs", q="state:failed", sort="-took", cursor=cursor, limit=1)
    assert same.status == 200


# -- wrong queries ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", ["jobs", "dead", "dead/groups", "jobs/count", "jobs/facets", "dead/count"])
async def test_a_wrong_query_names_the_character(caller: Caller, path: str) -> None:
    reply = await ask(caller, path, q="task:a stat:failed")
    assert (reply.status, reply.json["code"], reply.json["what"]) == (400, "invalid_query", "query")
    assert (reply.json["position"], reply.json["given"]) == (8, "task:a stat:failed")
    assert reply.json["problem"] == 'there is no field "stat"; did you mean "state"?'
    assert reply.json["detail"] == f"query, character 8: {reply.json['problem']}"


@pytest.mark.parametrize(
    ("query", "position"),
    [("(" * 41, 41), ("state:failed)", 13), ("took>soon", 6), ("/(/", 1), ("x" * 10_001, None), ("a\0", 2), ("-", 2)],
)
async def test_what_is_no_query_is_refused(caller: Caller, query: str, position: int | None) -> None:
    for reply in (await ask(caller, "jobs", q=query), await caller.post("/api/v1/jobs/cancel", {"q": query})):
        assert (reply.status, reply.json["code"]) == (400, "invalid_query"), reply
        assert reply.json.get("position") == position, reply


@pytest.mark.parametrize(
    ("path", "query", "what"),
    [
        ("jobs", {"sort": "tok"}, "sort"),
        ("jobs", {"sort": "label"}, "sort"),
        ("dead", {"sort": ""}, "sort"),
        ("jobs", {"q": ["a", "b"]}, "q"),
        ("dead/groups", {"sort": "id"}, "query parameter"),
        ("jobs/count", {"limit": 5}, "query parameter"),
        ("jobs/count", {"state": "lost"}, "state[0]"),
        ("jobs/facets", {"sort": "id"}, "query parameter"),
        ("dead/count", {"state": "failed"}, "query parameter"),
    ],
)
async def test_wrong_parameters_are_named(caller: Caller, path: str, query: dict[str, Any], what: str) -> None:
    reply = await ask(caller, path, **query)
    assert (reply.status, reply.json["what"]) == (400, what), reply


async def test_an_order_with_a_slip_is_suggested(caller: Caller) -> None:
    assert "did you mean took?" in (await ask(caller, "jobs", sort="-tok")).json["detail"]


async def test_texts_of_queries_are_values_never_sql(world: World, caller: Caller) -> None:
    await world.one(ANN)
    for text in ("' OR 1=1 --", "%", "_", "\\", "'; DROP TABLE jobs; --"):
        quoted = '"' + text.replace("\\", "\\\\") + '"'
        for field in ("queue:", "label:", "error~", "args.x:", ""):
            assert (await ask(caller, "jobs", q=f"{field}{quoted}")).json["items"] == [], (field, text)


# -- counts and facets -----------------------------------------------------------------------------------------------
async def test_counts_and_facets(world: World, caller: Caller) -> None:
    await arrange(world)
    assert (await ask(caller, "jobs/count")).json == {"number": 5, "exact": True}
    assert (await ask(caller, "jobs/count", q="refused", queue="mail")).json == {"number": 3, "exact": True}
    assert (await ask(caller, "dead/count", q="took>2s")).json == {"number": 1, "exact": True}
    facets = (await ask(caller, "jobs/facets", state=["failed", "ready"])).json
    assert (facets["total"], facets["complete"]) == ({"number": 5, "exact": True}, True)
    assert facets["fields"]["task"] == [
        {"value": "mail.send", "number": 3, "exact": True, "title": None},
        {"value": "report", "number": 2, "exact": True, "title": None},
    ]
    assert facets["fields"]["user"] == [{"value": "ann", "number": 5, "exact": True, "title": None}]


async def test_an_estimate_says_so(world: World, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(30):
        await world.one(ANN)
        world.clock.advance(1)
    monkeypatch.setattr(pages, "ROWS_COUNTED", 10)
    monkeypatch.setattr(pages, "FIRST_COUNTED", 5)
    count = (await ask(caller, "jobs/count")).json
    assert not count["exact"]
    assert 10 <= count["number"] <= 40
    facets = (await ask(caller, "jobs/facets")).json
    assert (facets["total"]["exact"], facets["complete"], facets["fields"]["task"][0]["exact"]) == (False,) * 3


# -- changes of many jobs --------------------------------------------------------------------------------------------
async def test_many_jobs_are_changed_by_a_query(world: World, caller: Caller) -> None:
    mails, reports = await arrange(world)
    preview = (await caller.post("/api/v1/jobs/cancel", {"q": "task:report OR refused", "dry_run": True})).json
    assert (preview["matched"], [one["id"] for one in preview["jobs"]]) == (2, reports[::-1])
    reply = await caller.post("/api/v1/jobs/priority", {"q": f"id:{reports[0]}", "priority": 1})
    assert (reply.json["matched"], reply.json["changed"]) == (1, 1)
    assert (await caller.post("/api/v1/jobs/cancel", {"q": "report", "task": "mail.*"})).json["matched"] == 0
    assert (await caller.post("/api/v1/jobs/cancel", {"q": "report"})).json["changed"] == 2
    assert (await caller.post("/api/v1/jobs/retry", {"q": "state:cancelled priority:1"})).json["changed"] == 1
    done = await caller.post("/api/v1/dead/replay", {"q": "took>=3s"})
    assert (done.json["matched"], (await world.info(mails[2])).replays) == (1, 1)
    assert (await caller.post("/api/v1/dead/purge", {"q": "connection"})).json["changed"] == 2
    assert set(await world.all()) == {mails[2], *reports}


async def test_a_preview_counts_what_a_query_finds_and_no_more(world: World, caller: Caller) -> None:
    """A database finds `fused` in `refused`; as a word it is not there."""
    await arrange(world)
    for query, number in (("fused", 0), ("refused", 3), ("-refused", 0), ("/connection [12]/", 2)):
        preview = await caller.post("/api/v1/dead/replay", {"q": query, "dry_run": True})
        assert (preview.json["matched"], len(preview.json["jobs"])) == (number, number), query


@pytest.mark.parametrize("query", ["", " ", "*", "(*)"])
async def test_a_query_that_fits_everything_is_no_condition(world: World, caller: Caller, query: str) -> None:
    await arrange(world)
    for verb, more in (("cancel", {}), ("retry", {}), ("priority", {"priority": 1})):
        async with world.unchanged():
            reply = await caller.post(f"/api/v1/jobs/{verb}", {"q": query, **more})
        assert (reply.status, reply.json["given"]) == (400, "no condition"), reply


async def test_a_repeat_means_the_instant_of_the_first_time(world: World, caller: Caller) -> None:
    mails, _ = await arrange(world)
    body, head = {"q": "finished>-90s"}, {"idempotency-key": "k"}
    first = await caller.post("/api/v1/dead/replay", body, headers=head)
    world.clock.advance(600)
    again = await caller.post("/api/v1/dead/replay", body, headers=head)
    assert first.json["changed"] == 1
    assert (again.status, again.json) == (first.status, first.json)
    assert [(await world.info(job)).replays for job in mails] == [0, 0, 1]


# -- nothing of others -----------------------------------------------------------------------------------------------
BOB = Principal("bob")
HIDDEN = ("zebra", "bob")


async def of_bob(world: World) -> None:
    """Jobs whose task, queue, labels, workflow, schedule, key and errors have a word that no other job has."""
    await world.one(BOB, task="zebra", queue="zebra", key="zebra", requirements=Requirements(labels=("zebra",)))
    await keep(world, who=BOB, name="zebra")
    world.clock.advance(61)
    await move_on(world, "zebra", BOB)
    node = await world.node()
    for result in (Failed(Problem("zebra.E", "zebra"), fatal=True), DONE):
        await world.one(BOB, task="zebra.ended", queue="zebra-ended")
        (claimed,) = await node.claim(1, "zebra-ended")
        await node.finish(claimed, result)


@pytest.mark.parametrize("role", [role for role in Role if Permission.READ in ROLES[role]])
async def test_no_answer_shows_what_is_of_another(world: World, caller: Caller, role: Role) -> None:
    own = await world.several(2, ANN, task="own")
    await of_bob(world)
    key = secret(role)
    queries = [
        *({"q": text} for text in ("*", "zebra", "zeb*", "/zebra/", "user:bob", "-user:ann", "user:*", "state:failed")),
        *({"q": f"{field.name}:ze*"} for field in JOB_FIELDS if field.stored), {"queue": "zebra"}, {"label": "zebra"},
    ]  # fmt: skip
    for path in ("jobs", "jobs/count", "jobs/facets", "dead", "dead/count", "dead/groups"):
        for query in queries:
            if path == "dead/groups" and query.get("q", "")[:1] in ("z", "/"):
                continue
            everything = query == {"q": "*"} or query == {"q": "user:*"}
            reply = await ask(caller, path, key, **query)
            assert reply.status == 200, reply
            assert not [word for word in HIDDEN if word.encode() in reply.body], (path, query, reply)
            if path == "jobs":
                assert [one["id"] for one in reply.json["items"]] == (own[::-1] if everything else []), query
                assert (reply.json["progress"]["examined"] or 0) <= len(own)
            if path == "jobs/count":
                assert reply.json == {"number": len(own) if everything else 0, "exact": True}
    for field in JOB_FIELDS:
        for begun in ("", "z", "b"):
            reply = await ask(caller, "search/complete", key, text=f"{field.name}:{begun}")
            assert not [word for word in HIDDEN if word.encode() in reply.body], (field.name, begun, reply)


async def test_a_change_of_many_reaches_no_job_of_another(world: World, caller: Caller) -> None:
    await of_bob(world)
    for path, more in (("jobs/cancel", {}), ("jobs/retry", {}), ("jobs/priority", {"priority": 1}), ("dead/purge", {})):
        for query in ("user:bob", "zebra", "-user:ann", "user:*"):
            async with world.unchanged():
                for dry in (True, False):
                    reply = await caller.post(f"/api/v1/{path}", {"q": query, "dry_run": dry, **more})
                    assert (reply.status, reply.json["matched"], reply.json["jobs"]) == (200, 0, []), reply

"""Schedules and calendars over HTTP: edits by version, previews, and verbs."""

from __future__ import annotations

from typing import Any

import pytest

from rota.model.times import DAY, HOUR, iso
from tests.api.caller import Caller, secret
from tests.contracts.world import World

NIGHTLY: dict[str, Any] = {"cron": "0 3 * * *", "tz": "Europe/Berlin", "job": {"command": ["true"], "queue": "night"}}
PATH = "/api/v1/schedules/nightly"


async def test_a_schedule_is_added_replaced_and_removed_by_version(caller: Caller) -> None:
    added = await caller.put(PATH, NIGHTLY, headers={"if-none-match": "*"})
    assert (added.status, added.json["saved"], added.json["zone"]) == (201, "added", "Europe/Berlin")
    same = await caller.put(PATH, NIGHTLY)
    assert (same.status, same.json["saved"], same.headers["etag"]) == (200, "unchanged", added.headers["etag"])
    assert (await caller.put(PATH, NIGHTLY, headers={"if-none-match": "*"})).json["code"] == "exists_already"
    shown = await caller.get(PATH)
    assert (shown.json["job"]["queue"], len(shown.json["next"])) == ("night", 5)
    known = await caller.get(PATH, headers={"if-none-match": shown.headers["etag"]})
    assert (known.status, known.body, known.headers["etag"]) == (304, b"", shown.headers["etag"])
    changed = await caller.put(PATH, NIGHTLY | {"cron": "0 4 * * *"}, headers={"if-match": shown.headers["etag"]})
    assert (changed.status, changed.json["saved"], changed.json["rule"]) == (200, "replaced", "0 4 * * *")
    late = await caller.put(PATH, NIGHTLY, headers={"if-match": shown.headers["etag"]})
    assert (late.status, late.json["code"]) == (412, "changed_meanwhile")
    assert (await caller.delete(PATH, headers={"if-match": shown.headers["etag"]})).status == 412
    assert (await caller.get(PATH, key=secret("admin", "bob"))).status == 404
    assert (await caller.delete(PATH, key=secret("admin", "bob"))).status == 404
    assert (await caller.delete(PATH, headers={"if-match": changed.headers["etag"]})).status == 204
    assert (await caller.get(PATH)).status == 404
    assert (await caller.put(PATH, NIGHTLY, headers={"if-match": "*"})).status == 412


async def test_fires_do_not_change_the_version(world: World, caller: Caller) -> None:
    await caller.put(PATH, NIGHTLY)
    before = (await caller.get(PATH)).headers["etag"]
    assert (await caller.post(f"{PATH}/fire")).status == 201
    assert (await caller.get(PATH)).headers["etag"] == before


async def test_a_schedule_is_paused_resumed_fired_and_backfilled(world: World, caller: Caller) -> None:
    await caller.put(PATH, NIGHTLY)
    paused = await caller.post(f"{PATH}/pause", {"note": "holidays"})
    assert (paused.json["state"], paused.json["note"]) == ("paused", "holidays")
    assert (await caller.post(f"{PATH}/pause")).json["note"] == "holidays"
    assert (await caller.post(f"{PATH}/resume")).json["state"] == "active"
    fired = (await caller.post(f"{PATH}/fire")).json
    assert (await caller.get(f"/api/v1/jobs/{fired['job']}")).json["schedule"] == "nightly"
    now = world.clock.now()
    span = {"from": iso(now - 3 * DAY), "to": iso(now - HOUR)}
    assert (await caller.post(f"{PATH}/backfill", span | {"dry_run": True})).json["made"] == 0
    assert (await caller.post(f"{PATH}/backfill", span)).json["made"] == 3
    fires = (await caller.get(f"{PATH}/fires?limit=2")).json
    rest = (await caller.get(f"{PATH}/fires?limit=2&cursor={fires['next']}")).json
    assert [one["kind"] for one in fires["items"] + rest["items"]] == ["manual", "backfill", "backfill", "backfill"]
    assert len((await caller.get(f"{PATH}/next?count=3")).json["items"]) == 3


async def test_a_new_schedule_may_begin_as_paused(caller: Caller) -> None:
    reply = await caller.put(PATH, NIGHTLY | {"paused": True, "note": "not yet"})
    assert (reply.json["state"], reply.json["note"]) == ("paused", "not yet")


async def test_a_preview_saves_nothing(world: World, caller: Caller) -> None:
    async with world.unchanged():
        reply = await caller.post("/api/v1/schedule-preview", {"every": "1h", "count": 3}, key=secret("viewer"))
    assert len(reply.json["items"]) == 3


async def test_schedules_are_listed_in_pages(caller: Caller) -> None:
    for name in "cab":
        await caller.put(f"/api/v1/schedules/{name}", NIGHTLY)
    await caller.put("/api/v1/schedules/d", NIGHTLY, key=secret("admin", "bob"))
    first = (await caller.get("/api/v1/schedules?limit=2")).json
    rest = (await caller.get(f"/api/v1/schedules?limit=2&cursor={first['next']}")).json
    assert [one["name"] for one in first["items"] + rest["items"]] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"cron": "every day"}, "cron"),
        ({"cron": None}, "rule"),
        ({"every": "1h"}, "rule"),
        ({"tz": "Nowhere"}, "time zone"),
        ({"job": {}}, "job.task, command and http"),
        ({"job": {"command": ["x"], "key": "k"}}, "job.key"),
        ({"job": {"command": ["x"], "priority": "high"}}, "job.priority"),
        ({"note": "why"}, "note"),
        ({"exclude": ["holidays"]}, "calendar"),
        ({"owner": "bob"}, "owner"),
    ],
)
async def test_refusals_name_the_field(world: World, caller: Caller, change: Any, what: str) -> None:
    async with world.unchanged():
        reply = await caller.put(PATH, NIGHTLY | change)
    assert (reply.status, reply.json["what"]) == (400, what)


async def test_a_key_without_commands_neither_saves_nor_fires_them(caller: Caller) -> None:
    await caller.put(PATH, NIGHTLY)
    for method, path, body in (("PUT", PATH, NIGHTLY), ("POST", f"{PATH}/fire", None)):
        assert (await caller.with_json(method, path, body, key=secret("operator"))).status == 403


# -- calendars -------------------------------------------------------------------------------------------------------
async def test_calendars_by_version(caller: Caller) -> None:
    path = "/api/v1/calendars/holidays"
    added = await caller.put(path, {"dates": ["2027-12-24", "2027-01-01"]})
    assert (added.status, added.json["dates"]) == (201, ["2027-01-01", "2027-12-24"])
    etag = added.headers["etag"]
    assert (await caller.get(path, headers={"if-none-match": etag})).status == 304
    assert (await caller.put(path, {"dates": ["2027-05-01"]}, headers={"if-match": etag})).status == 200
    assert (await caller.put(path, {"dates": []}, headers={"if-match": etag})).status == 412
    await caller.put(PATH, NIGHTLY | {"exclude": "holidays"})
    needed = await caller.delete(path)
    assert (needed.status, "nightly" in needed.json["detail"]) == (400, True)
    await caller.delete(PATH)
    assert (await caller.delete(path)).status == 204
    assert (await caller.get("/api/v1/calendars")).json["items"] == []


ICS = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20270501\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"


async def test_a_calendar_of_events(caller: Caller) -> None:
    reply = await caller.put("/api/v1/calendars/x", {"ics": ICS, "from": "2027-01-01", "to": "2027-12-31"})
    assert reply.json["dates"] == ["2027-05-01"]


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ({}, "dates and ics"),
        ({"dates": ["today"]}, "dates[0]"),
        ({"dates": ["1900-01-01"]}, "calendar x"),
        ({"dates": [], "tz": "UTC"}, "tz"),
        ({"ics": "x"}, "calendar"),
        ({"ics": ICS, "from": "2027-01-01", "to": "2026-01-01"}, "to"),
    ],
)
async def test_wrong_calendars(caller: Caller, body: Any, what: str) -> None:
    reply = await caller.put("/api/v1/calendars/x", body)
    assert (reply.status, reply.json["what"]) == (400, what)

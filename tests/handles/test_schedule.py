"""Schedules as a user's code makes them: by a call, or declared above a function."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import rota
from rota.errors import InvalidInput, NotFound
from rota.model.lifecycle import State
from rota.model.trigger.records import FireKind
from rota.model.trigger.skipped import SkipReason
from rota.testing import harness

NOON = datetime(2027, 1, 15, 12, tzinfo=UTC)


def make() -> rota.App:
    return rota.App("sqlite:///never-made.db", name="billing")


@pytest.fixture
def app() -> rota.App:
    return make()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def note(app: rota.App, said: list[str]) -> rota.Task[..., Any]:
    @app.task(queue="mail")
    async def note(when: str, count: int = 0) -> None:
        said.append(when)

    return note


async def names(app: rota.App) -> list[str]:
    return [info.name async for info in (await app._core.planning()).all()]


async def test_a_schedule_fires_at_its_times_with_the_times_filled_in(
    app: rota.App, note: rota.Task[..., Any], said: list[str]
) -> None:
    async with harness(app, now=NOON) as rota_test:
        schedule = await app.schedule("hourly", note, cron="@hourly", tz="Asia/Kathmandu", args={"when": "{fire_time}"})
        await rota_test.advance("2h")
        assert said == ["2027-01-15T18:00:00+05:45", "2027-01-15T19:00:00+05:45"]
        first = (await schedule.history())[-1]
        job = await app.job(str(first.job_id))
        info = await job.info()
        assert (info.queue, info.state, info.schedule, info.fire_time) == ("mail", "succeeded", "hourly", first.fire)


async def test_commands_get_the_times_too(app: rota.App) -> None:
    async with harness(app, now=NOON, allow_commands=True) as rota_test:
        command = ["sh", "-c", "echo $AT $0", "{scheduled_for}"]
        schedule = await app.schedule("echo", command, every="10m", env={"AT": "{fire_time}"}, cwd="/")
        await rota_test.advance("10m")
        (fire,) = await schedule.history()
        job = await app.job(str(fire.job_id))
        assert await job.logs() == "2027-01-15T12:10:00+00:00 2027-01-15T12:10:00+00:00\n"


async def test_the_same_again_changes_nothing_and_other_words_do(app: rota.App, note: rota.Task[..., Any]) -> None:
    async with harness(app, now=NOON):
        words: dict[str, Any] = {"cron": "0 3 * * *", "args": {"when": "x"}, "priority": 2}
        schedule = await app.schedule("nightly", note, **words)
        before = await schedule.info()
        await app.schedule("nightly", note, **words)
        assert await schedule.info() == before
        await app.schedule("nightly", note, **(words | {"priority": 3}))
        assert (await schedule.info()).revision > before.revision


async def test_what_can_be_done_with_one(app: rota.App, note: rota.Task[..., Any], said: list[str]) -> None:
    async with harness(app, now=NOON) as rota_test:
        schedule = await app.schedule("hourly", note, every="1h", args={"when": "{fire_time}"}, overlap="skip")
        assert await schedule.next(2) == [
            datetime(2027, 1, 15, 13, tzinfo=UTC) + timedelta(hours=hours) for hours in (0, 1)
        ]
        info = await schedule.pause("the bank is closed")
        assert (info.note, info.paused_by) == ("the bank is closed", "local")
        await rota_test.advance("90m")
        await schedule.resume()
        await rota_test.advance("1h")
        assert said == ["2027-01-15T14:00:00+00:00"]
        first = await schedule.fire()
        assert first is not None
        assert await schedule.fire() is None, "one still lives"
        await rota_test.run_due()
        assert (await first.info()).state is State.SUCCEEDED
        done = await schedule.backfill("2027-01-15T12:30:00Z", "2027-01-15T14:20:00Z")
        assert (done.total, done.queued + done.made, done.already) == (2, 1, 1)
        kinds = [(fire.kind, fire.reason) for fire in await schedule.history()]
        assert kinds == [
            (None, SkipReason.OVERLAP), (FireKind.MANUAL, None), (FireKind.RULE, None), (FireKind.BACKFILL, None),
            (None, SkipReason.PAUSED),
        ]  # fmt: skip
        await schedule.remove()
        with pytest.raises(NotFound):
            await schedule.info()


def declared(*words: str) -> rota.App:
    app = make()
    for word in words:
        name, _, period = word.partition(":")

        async def work() -> None: ...

        app.every(period, name=name)(app.task(name=f"task {name}")(work))
    return app


async def test_what_is_declared_is_kept_changed_and_removed_with_the_code(tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path}/a.db"
    async with rota.App(place, name="other") as other:
        await other._core.declare()
        await other.schedule("by hand", ["true"], every="1h")
    for words, expected in (
        (("a:1m", "b:1m"), ["a", "b", "by hand"]),
        (("a:1m", "b:2m"), ["a", "b", "by hand"]),
        (("b:2m",), ["b", "by hand"]),
        ((), ["by hand"]),
    ):
        app = declared(*words)
        app.configure(store=place)
        async with app:
            await app._core.declare()
            assert await names(app) == expected


async def test_a_pause_outlives_the_next_start(tmp_path: Path) -> None:
    for _ in range(2):
        app = declared("a:1m")
        app.configure(store=f"sqlite:///{tmp_path}/a.db")
        async with app:
            await app._core.declare()
            schedule = rota.Schedule(app, "a")
            info = await schedule.info()
            await schedule.pause("not now")
    assert info.note == "not now"


async def test_a_name_that_is_taken_is_not_taken_over(tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path}/a.db"
    async with rota.App(place) as app:
        await app.schedule("a", ["true"], every="1h")
    declaring = declared("a:1m")
    declaring.configure(store=place)
    async with declaring:
        with pytest.raises(InvalidInput, match=r"schedule: 'a' .* it was not declared in code"):
            await declaring._core.declare()
        await (await declaring._core.planning()).remove("a")
        await declaring._core.declare()
        with pytest.raises(InvalidInput, match=r"app 'billing' declares it"):
            await declaring.schedule("a", ["true"], every="1h")


async def test_a_declared_function_becomes_a_task(app: rota.App) -> None:
    @app.cron("@hourly")
    async def tidy() -> str:
        return "tidied"

    assert isinstance(tidy, rota.Task)
    assert await tidy() == "tidied"
    async with harness(app, now=NOON) as rota_test:
        await rota_test.advance("1h")
        (fire,) = await rota.Schedule(app, "tidy").history()
        assert await (await app.job(str(fire.job_id))).result() == "tidied"


async def test_they_are_listed_and_zones_may_be_zones(app: rota.App, note: rota.Task[..., Any]) -> None:
    async with harness(app, now=NOON):
        for name in ("b", "a"):
            await app.schedule(name, note, cron="0 9 * * *", tz=ZoneInfo("Asia/Tokyo"), args={"when": "x"})
        assert [info.name for info in await app.schedules()] == ["a", "b"]
        assert [moment.hour for moment in await rota.Schedule(app, "a").next()] == [9]


async def test_all_are_looked_at_before_the_first_is_kept(app: rota.App) -> None:
    app.cron("@daily", name="good")(app.task(name="good")(lambda: None))
    app.cron("@daily", name="bad", exclude="nowhere")(app.task(name="bad")(lambda: None))
    with pytest.raises(InvalidInput, match="calendar: 'nowhere'"):
        async with harness(app, now=NOON):
            pass
    app.configure(store="sqlite:///:memory:")
    async with app:
        with pytest.raises(InvalidInput):
            await app._core.declare()
        assert await names(app) == []


@pytest.mark.parametrize("decorate", ["cron", "every", "task"])
def test_decorators_that_are_put_wrongly_say_so(app: rota.App, decorate: str) -> None:
    def work() -> None: ...

    given: Any = app.cron("@daily")(work) if decorate == "task" else work
    with pytest.raises(InvalidInput, match=decorate):
        getattr(app, decorate)(given)


def test_an_app_is_named_by_its_module_and_can_not_declare_where_there_is_none() -> None:
    app = rota.App("sqlite:///never-made.db")
    assert app.name == __name__
    app.cron("@daily")(app.task(name="a")(lambda: None))
    typed: dict[str, Any] = {"rota": rota}
    exec("app = rota.App('sqlite:///never-made.db')", typed)  # as in a notebook: without a module
    assert typed["app"].name == ""
    with pytest.raises(InvalidInput, match=r'app name: .* App\(name="billing"\)'):
        typed["app"].cron("@daily")


def test_what_is_wrong_with_a_declaration_shows_where_it_stands(app: rota.App) -> None:
    with pytest.raises(InvalidInput, match="cron field 1"):
        app.cron("61 * * * *")(app.task(name="never")(lambda: None))
    app.cron("@daily", name="twice")(app.task(name="a")(lambda: None))
    with pytest.raises(InvalidInput, match="'twice' is not valid; expected a name that no other schedule"):
        app.cron("@daily", name="twice")(app.task(name="b")(lambda: None))


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({}, "rule: None"),
        ({"cron": "@daily", "every": "1h"}, "rule: 'cron and every'"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": "@daily", "tz": "Mars/Base"}, "time zone: 'Mars/Base'"),
        ({"every": "0s"}, "every: '0s'"),
        ({"every": "1h", "overlap": "maybe"}, "overlap: 'maybe'"),
        ({"every": "1h", "catch_up": "some"}, "catch up: 'some'"),
        ({"every": "1h", "start": "2027-01-02T00:00:00Z", "end": "2027-01-01T00:00:00Z"}, "end: "),
        ({"every": "1h", "end": "2027-01-01T00:00:00Z"}, "end: "),
        ({"at": ["2027-01-01T00:00:00Z"]}, "rule: "),
        ({"every": "1h", "exclude": "holidays"}, "calendar: 'holidays'"),
        ({"every": "1h", "colour": "red"}, "option: 'colour'"),
        ({"every": "1h", "delay": "3s"}, "option: 'delay'"),
        ({"every": "1h", "args": {"when": 7}}, "arguments of task 'note'"),
        ({"every": "1h", "args": {"wen": "x"}}, "arguments of task 'note'"),
        ({"every": "1h", "args": [1]}, "args: "),
        ({"every": "1h", "priority": 11}, "priority: 11"),
    ],
)
async def test_wrong_words_name_what_is_wrong_and_keep_nothing(
    app: rota.App, note: rota.Task[..., Any], bad: dict[str, Any], field: str
) -> None:
    async with harness(app, now=NOON):
        with pytest.raises(InvalidInput) as caught:
            await app.schedule("wrong", note, **({"args": {"when": "x"}} | bad))
        assert str(caught.value).startswith(field)
        assert await names(app) == []


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 201, "a\0b", None, 7])
async def test_names_are_printable_and_not_too_long(app: rota.App, note: rota.Task[..., Any], name: Any) -> None:
    async with harness(app, now=NOON):
        with pytest.raises(InvalidInput, match="schedule name"):
            await app.schedule(name, note, every="1h", args={"when": "x"})


def test_there_is_a_sync_face(tmp_path: Path) -> None:
    app = rota.App(f"sqlite:///{tmp_path}/a.db")
    schedule = app.schedule_sync("yearly", ["true"], cron="@yearly", tz="Pacific/Apia")
    (first,) = schedule.next_sync()
    assert (first.month, first.day, first.hour, first.utcoffset()) == (1, 1, 0, timedelta(hours=13))
    assert schedule.pause_sync("why").note == "why"
    assert schedule.resume_sync().note is None
    job = schedule.fire_sync()
    assert job is not None
    assert job.info_sync().schedule == "yearly"
    assert len(schedule.history_sync()) == 1
    schedule.remove_sync()
    app.close_sync()

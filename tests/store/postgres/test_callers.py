"""Orders in a caller's own transaction, with each driver there is; and by SQL alone."""

from __future__ import annotations

import asyncio
import json
import unicodedata
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import msgspec
import psycopg
import pytest

import rota
from rota.errors import InvalidInput, KeyConflict
from rota.model.job import Kind
from rota.model.lifecycle import State
from rota.model.limits import fill, word
from rota.model.node import NewNode
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import SECOND, instant
from rota.store.values import Topic
from rota.tasks.checks import fits
from tests.servers.postgres import shared_server
from tests.store.postgres.callers import Heard, Rollback, jobs
from tests.store.postgres.drivers import ASYNC, SYNC, by_asyncpg


@pytest.mark.sampled(2)
@pytest.mark.parametrize("driver", ASYNC)
async def test_a_job_exists_when_the_caller_commits_and_not_before(app: rota.App, driver: str) -> None:
    async with ASYNC[driver]() as connection:
        job = await app.welcome.within(connection).submit(user_id=7, delay="1h", key="k")  # type: ignore[attr-defined]
        assert await jobs(app) == []
    (info,) = await jobs(app)
    assert (info.id, info.state, info.queue, info.priority, info.args) == (
        job.id, State.SCHEDULED, "mail", 2, {"user_id": 7},
    )  # fmt: skip
    assert (info.timeout, info.retry.retries, info.key, info.owner) == (timedelta(seconds=30), 7, "k", "local")
    assert info.run_at - info.created_at == timedelta(hours=1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("driver", ASYNC)
async def test_what_is_rolled_back_was_never_ordered(app: rota.App, driver: str) -> None:
    welcome: Any = app.welcome  # type: ignore[attr-defined]

    async def change_ones_mind() -> None:
        async with ASYNC[driver]() as connection:
            await welcome.within(connection).submit_many([{"user_id": n} for n in range(3)])
            await app.submit_command(["true"], within=connection)
            raise Rollback

    with pytest.raises(Rollback):
        await change_ones_mind()
    assert await jobs(app) == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("driver", SYNC)
async def test_the_same_from_ordinary_code(app: rota.App, driver: str) -> None:
    welcome: Any = app.welcome  # type: ignore[attr-defined]

    def change_ones_mind() -> None:
        with SYNC[driver]() as connection:
            welcome.within(connection).submit_sync(user_id=1)
            raise Rollback

    def stay_with_it() -> set[str]:
        with SYNC[driver]() as connection:
            one = welcome.within(connection).submit_sync(user_id=1)
            many = welcome.within(connection).submit_many_sync([{"user_id": 2}, {"user_id": 3}])
            command = app.submit_command_sync(["true"], within=connection, name="truth")
            call = app.submit_http_sync("GET", "http://example.org", within=connection)
        return {one.id, command.id, call.id, *(job.id for job in many)}

    with pytest.raises(Rollback):  # in a thread: Django refuses to work beside an event loop
        await asyncio.to_thread(change_ones_mind)
    assert await jobs(app) == []
    ids = await asyncio.to_thread(stay_with_it)
    assert {info.id for info in await jobs(app)} == ids


async def test_a_used_key_does_not_spoil_the_callers_transaction(app: rota.App) -> None:
    welcome: Any = app.welcome  # type: ignore[attr-defined]
    first = await welcome.submit(user_id=7, key="k")
    async with by_asyncpg() as connection:
        assert (await welcome.within(connection).submit(user_id=7, key="k")).id == first.id
        with pytest.raises(KeyConflict):
            await welcome.within(connection).submit(user_id=8, key="k")
        other = await welcome.within(connection).submit(user_id=9)
    assert {info.id for info in await jobs(app)} == {first.id, other.id}


async def test_the_commit_wakes_whoever_waits(app: rota.App) -> None:
    woken = asyncio.Event()
    end = (await app._core.client()).store.listen(frozenset({Topic.READY}), woken.set)
    async with by_asyncpg() as connection:
        await app.welcome.within(connection).submit(user_id=7)  # type: ignore[attr-defined]
        assert not woken.is_set()
    async with asyncio.timeout(10):
        await woken.wait()
    end()


def quiet_one(app: rota.App) -> rota.App:
    """On the same store; its orders in transactions of others don't notify."""
    quiet = rota.App(app.settings.store, notify_within=False)

    @quiet.task(queue="mail")
    def welcome(user_id: int) -> None: ...

    quiet.welcome = welcome  # type: ignore[attr-defined]
    return quiet


@pytest.fixture
async def quiet(app: rota.App) -> AsyncIterator[rota.App]:
    async with quiet_one(app) as quiet:
        yield quiet


@pytest.mark.sampled(3)
@pytest.mark.parametrize("driver", ASYNC)
async def test_the_wake_up_can_be_left_out_of_the_transaction(
    app: rota.App, quiet: rota.App, heard: Heard, driver: str
) -> None:
    async with ASYNC[driver]() as connection:
        await app.welcome.within(connection).submit(user_id=7)  # type: ignore[attr-defined]
    assert await heard.so_far() == ["r"]
    async with ASYNC[driver]() as connection:
        await quiet.welcome.within(connection).submit(user_id=8)  # type: ignore[attr-defined]
        await quiet.submit_command(["true"], within=connection)
        await quiet.submit_http("GET", "http://example.org", within=connection)
    assert await heard.so_far() == []
    assert len(await jobs(app)) == 4
    await quiet.wake()
    assert set(await heard.next()) >= {"r", "d"}, "after the commit, by a notification of its own"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("driver", SYNC)
async def test_the_same_without_await(app: rota.App, heard: Heard, driver: str) -> None:
    quiet = quiet_one(app)

    def order() -> None:
        with SYNC[driver]() as connection:
            quiet.welcome.within(connection).submit_sync(user_id=8)  # type: ignore[attr-defined]
            quiet.submit_command_sync(["true"], within=connection)
            quiet.submit_http_sync("GET", "http://example.org", within=connection)

    await asyncio.to_thread(order)
    assert await heard.so_far() == []
    assert len(await jobs(app)) == 3
    await asyncio.to_thread(quiet.wake_sync)
    assert set(await heard.next()) >= {"r", "d"}
    await asyncio.to_thread(quiet.close_sync)


async def test_other_orders_of_such_an_app_wake_as_ever(quiet: rota.App, heard: Heard) -> None:
    await quiet.welcome.submit(user_id=7)  # type: ignore[attr-defined]
    assert await heard.next() == "r"


# -- by SQL alone ------------------------------------------------------------------------------------------------------


def ask(app: rota.App, call: str, *values: object) -> Any:
    schema = app.settings.store.rpartition("=")[2]
    with psycopg.connect(shared_server().url(), options=f"-c search_path={schema}") as connection:
        row = connection.execute(f"SELECT {call}", values).fetchone()
    assert row is not None
    return row[0]


async def test_a_job_by_sql_is_like_any_other(app: rota.App) -> None:
    by_sql = ask(app, "submit('welcome', '{\"user_id\": 7}')")
    assert isinstance(by_sql, uuid.UUID)
    assert by_sql.version == 7
    by_python = await app.welcome.submit(user_id=7)  # type: ignore[attr-defined]
    first, second = await (await app._core.client()).get(str(by_sql)), await by_python.info()
    for name in ("task", "kind", "spec", "args", "queue", "priority", "state", "retry", "timeout", "owner"):
        assert getattr(first, name) == getattr(second, name), name
    store = (await app._core.client()).store
    claimed = await store.claim(SYSTEM, "n", {"mail": 5}, list(Kind), {"mail": 5})
    assert len({(one.spec, one.timeout) for one in claimed}) == 1


async def test_options_by_sql(app: rota.App) -> None:
    job = ask(
        app,
        "submit('welcome', '{\"user_id\": 7}', queue => 'other', priority => 9, delay => '1 hour', retries => 0, "
        "timeout => '5s', expires => '1 day', owner => 'alice', key => 'k')",
    )
    again = ask(
        app,
        "submit('welcome', '{\"user_id\": 7}', queue => 'other', priority => 9, delay => '1 hour', retries => 0, "
        "timeout => '5s', expires => '1 day', owner => 'alice', key => 'k')",
    )
    assert job == again
    info = await (await app._core.client()).store.get(SYSTEM, str(job))
    assert info is not None
    assert (info.queue, info.priority, info.state, info.retry.retries) == ("other", 9, State.SCHEDULED, 0)
    assert (info.timeout, info.owner, info.key) == (timedelta(seconds=5), "alice", "k")
    assert instant(info.expires_at) == instant(info.run_at) + 24 * 3600 * SECOND
    assert await (await app._core.client()).store.get(LOCAL, str(job)) is None, "it is hers"


ORDER = "submit('welcome', '{\"user_id\": 7}', "


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        ("submit('nobody')", "unknown task 'nobody'"),
        ("submit('welcome')", "'user_id' is missing"),
        ("submit('welcome', '[1]')", "expected a JSON object"),
        ("submit('welcome', '{\"user_id\": 7, \"age\": 3}')", "'age' is unknown"),
        ("submit('welcome', '{\"user_id\": 7}', priority => 10)", "priority: 10 is not valid"),
        (ORDER + "retries => -1)", "retries: -1 is not valid"),
        (ORDER + "retries => 1000001)", "retries: 1000001 is not valid"),
        (ORDER + "run_at => now(), delay => '1s')", "expected one of them"),
        (ORDER + "run_at => 'infinity')", "run_at: expected a time"),
        (ORDER + "run_at => '9900-01-01')", "run_at: expected a time"),
        (ORDER + "delay => '-1s')", "delay: expected"),
        (ORDER + "delay => '101 years')", "delay: expected"),
        (ORDER + "timeout => '0')", "timeout: expected"),
        (ORDER + "expires => '200 years')", "expires: expected"),
        (ORDER + "owner => 'a:b')", "owner 'a:b': expected letters"),
        (ORDER + "owner => '')", "owner '': expected"),
        (ORDER + "owner => NULL)", "owner NULL: expected"),
        (ORDER + "queue => 'a b')", "queue 'a b': expected letters"),
        (ORDER + "key => '')", "key '': expected"),
        (ORDER + "key => repeat('k', 256))", "expected a text of 1 to 255"),
        (ORDER + "key => E'a\\tb')", "printable"),
        ("submit('welcome', '{\"user_id\": \"7\"}')", "'user_id' must be integer, not \"7\""),
        ("submit('welcome', '{\"user_id\": 7.5}')", "'user_id' must be integer, not 7.5"),
        ("submit('welcome', '{\"user_id\": 7.0}')", "'user_id' must be integer, not 7.0"),
        ("submit('welcome', '{\"user_id\": 1e5000}')", "expected numbers up to"),
        ("submit('welcome', '{\"user_id\": 7, \"name\": null}')", "'name' must be string, not null"),
    ],
)
async def test_wrong_orders_by_sql_are_refused(app: rota.App, call: str, complaint: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=complaint):
        ask(app, call)
    assert await jobs(app) == []


def python_takes(rule: Callable[[str], object], given: str) -> bool:
    try:
        rule(given)
    except InvalidInput:
        return False
    return True


async def test_sql_and_python_take_the_same_names(app: rota.App) -> None:
    """Each character in the middle of a name. Beyond ASCII, SQL takes as a letter whatever is printable."""
    known = [chr(n) for n in range(1, 0x10000) if unicodedata.category(chr(n)) not in ("Cs", "Cn")]
    with psycopg.connect(shared_server().url(), autocommit=True) as connection:
        schema = app.settings.store.rpartition("=")[2]
        rows = connection.execute(
            f"SELECT c, {schema}.is_word('a' || c || 'b'), {schema}.is_printable('a' || c || 'b') "
            "FROM unnest(%s::text[]) AS c",
            [known],
        ).fetchall()
    for character, word_, printable in rows:
        assert printable == character.isprintable(), ascii(character)
        python = python_takes(lambda name: word(name, "user"), f"a{character}b")
        assert word_ == python if character.isascii() else word_ or not python, ascii(character)


READ = {
    (): Any,
    ("integer",): int,
    ("number",): float,
    ("string", "null"): str | None,
    ("array", "boolean"): list[Any] | bool,
    ("object",): dict[str, Any],
}


def is_read(value: str, hint: Any) -> bool:
    try:
        msgspec.json.decode(value, type=hint)
    except msgspec.ValidationError:
        return False
    return True


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "value",
    [
        "null", "true", "7", "7.0", "7.5", '"7"', "[7]", '{"a": 7}', "1e2", "100e-2", "-0", "-0.0", "1.5e300",
        "9223372036854775808", "-9223372036854775809", "18446744073709551616",
    ],
)  # fmt: skip
async def test_sql_and_python_take_the_same_types(app: rota.App, value: str) -> None:
    """Held against what nodes can read. They read what PostgreSQL makes of a value: of 1e2 it makes 100."""
    stored = ask(app, f"'{value}'::jsonb::text")
    for kinds, hint in READ.items():
        assert fits(json.loads(stored), kinds) == is_read(stored, hint)
        call = f"check_type('t', 'n', '{value}', '{json.dumps(kinds)}')"
        if is_read(stored, hint):
            ask(app, call)
        else:
            with pytest.raises(psycopg.errors.InvalidParameterValue, match="must be"):
                ask(app, call)


@pytest.mark.parametrize("number", [7.0, 1e2, 10**400])
def test_numbers_that_a_node_could_not_read(number: float) -> None:
    for kinds in (("integer",), ("number",)):
        assert fits(number, kinds) == is_read(json.dumps(number), READ[kinds])


@pytest.mark.parametrize("numbers", ["1e309", "-1e309", '{"a": [[1e5000]]}'])
async def test_numbers_by_sql_that_no_node_can_read(app: rota.App, numbers: str) -> None:
    @app.task
    async def anything(value: Any) -> None: ...

    node = NewNode("m", "m", ("worker",), {"default": 5}, "1", 10 * SECOND)
    await (await app._core.client()).store.register(SYSTEM, node, app._core.catalogue.infos())
    ask(app, "submit('anything', '{\"value\": 1.7976931348623157e308}')")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="expected numbers up to"):
        ask(app, f"submit('anything', '{{\"value\": {numbers}}}')")


WORD = "': expected letters, digits and -_.@, at most 100"
KEY = "': expected a text of 1 to 255 printable characters"


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (ORDER + "owner => E'a\\nb')", rf"owner 'a\u000ab{WORD}"),
        (ORDER + "queue => E'a\\u2028b')", rf"queue 'a\u2028b{WORD}"),
        (ORDER + "key => repeat('k', 10000))", f"key '{'k' * 77}...{KEY}"),
        (ORDER + "key => E'\\n' || repeat('k', 10000))", rf"key '\u000a{'k' * 71}...{KEY}"),
        ("submit(E'no\\nbody')", r"unknown task 'no\u000abody'"),
        ("submit('welcome', E'{\"user_id\": 7, \"a\\\\nb\": 7}')", r"task 'welcome': 'a\u000ab' is unknown"),
    ],
)  # fmt: skip
async def test_complaints_by_sql_are_one_short_line(app: rota.App, call: str, complaint: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
        ask(app, call)
    assert refused.value.diag.message_primary == complaint


@pytest.mark.sampled(4)
@pytest.mark.parametrize("value", ["a", " a", "a ", "a b", "a\nb", "a\u2028b", "a\u00a0", "ä", "k" * 200, "k" * 201])
async def test_sql_and_python_make_the_same_keys_of_arguments(app: rota.App, value: str) -> None:
    call = "fill('{a}', jsonb_build_object('a', %s::text))"
    if python_takes(lambda name: fill("{a}", {"a": name}), value):
        assert ask(app, call, value) == fill("{a}", {"a": value})
    else:
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="printable") as refused:
            ask(app, call, value)
        assert len(str(refused.value.diag.message_primary).splitlines()[0]) < 160


async def test_a_used_key_by_sql(app: rota.App) -> None:
    ask(app, "submit('welcome', '{\"user_id\": 7}', key => 'k')")
    with pytest.raises(psycopg.errors.UniqueViolation, match="key 'k' was used before"):
        ask(app, "submit('welcome', '{\"user_id\": 8}', key => 'k')")
    assert len(await jobs(app)) == 1


async def test_by_sql_too_the_wake_up_can_be_left_out(app: rota.App, heard: Heard) -> None:
    ask(app, "submit('welcome', '{\"user_id\": 7}')")
    assert await heard.so_far() == ["r"]
    ask(app, "submit('welcome', '{\"user_id\": 7}', ring => false)")
    assert await heard.so_far() == []
    woken = asyncio.Event()
    end = (await app._core.client()).store.listen(frozenset({Topic.READY}), woken.set)
    schema = app.settings.store.rpartition("=")[2]
    shared_server().execute(f"NOTIFY {schema}, 'rd'")
    async with asyncio.timeout(10):
        await woken.wait()
    end()

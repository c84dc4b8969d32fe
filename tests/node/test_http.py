"""HTTP calls, from order to end, on a real node, on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.errors import InvalidInput, KeyConflict, TooLarge
from rota.model.job import Kind
from rota.model.lifecycle import State
from rota.model.outcome import Ending
from rota.model.times import SECOND, instant
from rota.store.values import Cancelling
from rota.telemetry.events import AttemptEnded
from rota.testing import harness
from rota.views.jobs import JobView
from tests.node.running import LONG, running
from tests.servers.web import Web, in_turn, raw, reply, web
from tests.store.postgres.backends import migrated_database

FAST = rota.Retry(2, backoff="10ms")


@pytest.fixture
def server() -> Iterator[Web]:
    with web() as found:
        yield found


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'rota.db'}"
    else:
        with migrated_database() as url:
            yield url


def make_app(place: str, **settings: Any) -> rota.App:
    return rota.App(place, **{"kill_grace": "500ms", "http_allow": "127.0.0.1", **settings})


@pytest.mark.sampled
async def test_a_call_runs_and_has_a_result(place: str, server: Web) -> None:
    app = make_app(place)
    url = server.on("/hook", reply(200, '{"done": [1]}', content_type="application/json"))
    async with running(app):
        job = await app.submit_http("POST", url, json={"a": None}, headers={"Authorization": "s3cret"})
        info = await job.wait(LONG)
        assert await job.result() == {
            "status": 200, "headers": {"content-type": "application/json"}, "body": {"done": [1]},
        }  # fmt: skip
        assert await job.logs() == '{"done": [1]}'
    assert (info.state, info.kind, info.task) == (State.SUCCEEDED, Kind.HTTP, "127.0.0.1")
    (asked,) = server.asked
    assert asked.body == b'{"a":null}'
    headers = {name: asked.headers[name] for name in ("content-type", "authorization", "rota-job", "rota-fence")}
    assert headers == {
        "content-type": "application/json", "authorization": "s3cret", "rota-job": job.id, "rota-fence": "1",
    }  # fmt: skip
    assert info.spec["headers"] == {"Authorization": "***", "Content-Type": "application/json"}
    assert "s3cret" not in str(info)
    assert "s3cret" not in str(JobView.of(info))


async def test_what_fails_is_tried_again_with_a_higher_fence_and_the_same_key(place: str, server: Web) -> None:
    app = make_app(place)
    url = server.on("/", in_turn(reply(503), raw(b"rubbish"), reply(200, "at last")))
    async with running(app):
        job = await app.submit_http("GET", url + "?token=s3cret", headers={"X-Key": "s3cret"}, retry=FAST)
        info = await job.wait(LONG)
    assert (info.state, info.result["body"]) == (State.SUCCEEDED, "at last")
    assert [asked.headers["rota-fence"] for asked in server.asked] == ["1", "2", "3"]
    assert {asked.headers["idempotency-key"] for asked in server.asked} == {job.id}
    problems = [attempt.error.type for attempt in info.attempts if attempt.error]
    assert problems == ["rota.HttpStatus", "rota.BadResponse"]
    assert "s3cret" not in str(info)


async def test_the_server_says_when(place: str, server: Web) -> None:
    app = make_app(place)
    async with running(app) as (_, probe):
        job = await app.submit_http("GET", server.on("/", reply(429, retry_after="3600")), retry=FAST)
        ended = await probe.until(AttemptEnded, lambda event: event.job_id == job.id)
        info = await job.info()
    assert ended.goes_on
    assert info.state is State.SCHEDULED
    assert info.attempts[0].finished_at is not None
    assert 3600 * SECOND <= instant(info.run_at) - instant(info.attempts[0].finished_at) < 3660 * SECOND
    assert info.reason is not None
    assert info.reason.endswith("it asks to wait for 1h")


async def test_fatal_ends(place: str, server: Web) -> None:
    app = make_app(place)
    server.on("/meta", reply(302, location="http://169.254.169.254/latest/"))
    async with running(app):
        missing = await (await app.submit_http("GET", server.url + "/none", retry=FAST)).wait(LONG)
        inside = await (await app.submit_http("GET", server.url + "/meta", retry=FAST)).wait(LONG)
        itself = await (await app.submit_http("GET", server.at("127.0.0.2"), retry=FAST)).wait(LONG)
    assert [info.state for info in (missing, inside, itself)] == [State.FAILED] * 3
    assert [len(info.attempts) for info in (missing, inside, itself)] == [1, 1, 1]
    assert [info.error.type for info in (missing, inside, itself) if info.error] == [
        "rota.HttpStatus", "rota.AddressDenied", "rota.AddressDenied",
    ]  # fmt: skip
    assert inside.reason == "169.254.169.254: metadata addresses are denied unless http_allow has them"


async def test_cancel_and_timeout_hang_up(place: str, server: Web) -> None:
    app = make_app(place)
    silent = server.on("/silent", raw(b"", close=False))
    async with running(app):
        cancelled = await app.submit_http("GET", silent)
        await server.until(lambda web: len(web.asked) == 1)
        assert await cancelled.cancel("enough") is Cancelling.REQUESTED
        first = await cancelled.wait(LONG)
        timed = await (await app.submit_http("GET", silent, timeout="200ms", retry=0)).wait(LONG)
        capped = await app.submit_http("GET", silent, retry=0)
        await server.until(lambda web: len(web.broken) == 2)
        await server.until(lambda web: len(web.asked) == 3)
        await capped.cancel()
    assert (first.state, first.reason) == (State.CANCELLED, "enough")
    assert (timed.state, timed.attempts[0].outcome) == (State.FAILED, Ending.TIMED_OUT)
    assert timed.reason == "timed out after 200ms"


async def test_a_node_that_stops_hands_its_calls_back(place: str, server: Web) -> None:
    app = make_app(place, grace="100ms")
    async with running(app) as (node, _):
        job = await app.submit_http("GET", server.on("/", raw(b"", close=False)))
        await server.until(lambda web: bool(web.asked))
        node.stop()
        await server.until(lambda web: bool(web.broken))
    async with rota.App(place) as later:
        info = await (await later.job(job.id)).info()
    assert (info.state, info.interruptions, info.failures) == (State.READY, 1, 0)


@pytest.mark.sampled
async def test_many_at_once(place: str, server: Web) -> None:
    app = make_app(place)
    server.on("/", reply(200, "x"))
    async with running(app):
        jobs = await asyncio.gather(*(app.submit_http("GET", server.url, labels=[f"n{n}"]) for n in range(100)))
        infos = await asyncio.gather(*(job.wait(LONG) for job in jobs))
    assert {info.state for info in infos} == {State.SUCCEEDED}
    assert len({asked.headers["rota-job"] for asked in server.asked}) == 100


async def test_in_workflows(place: str, server: Web) -> None:
    app = make_app(place)
    server.on("/a", reply(200, "a"))
    async with running(app):
        async with app.workflow() as flow:
            first = flow.add(app.http("GET", server.url + "/a", name="first"))
            then = flow.add(app.http("POST", server.url + "/b"), after=first, retry=0)
            last = flow.add(app.http("GET", server.url + "/a"), after=then, on="failure")
        await last.wait(LONG)
        infos = [await job.info() for job in (first, then, last)]
    assert [info.state for info in infos] == [State.SUCCEEDED, State.FAILED, State.SUCCEEDED]
    assert infos[0].task == "first"
    assert server.paths() == ["/a", "/b", "/a"]
    with pytest.raises(InvalidInput, match="arguments"):
        async with make_app(place) as other, other.workflow() as flow:
            flow.add(other.http("GET", "http://a/"), 5)  # type: ignore[call-overload]


async def test_in_schedules(server: Web) -> None:
    app = rota.App("sqlite:///:memory:")
    server.on("/at", reply())
    async with harness(app, allow_http=True, http_allow="127.0.0.1") as rota_test:
        call = app.http(
            "POST",
            server.url + "/at?t={fire_time}",
            headers={"X-When": "{fire_time}"},
            json={"when": "{scheduled_for}"},
        )
        schedule = await app.schedule("ping", call, every="1h", tz="Europe/Berlin", queue="default", retry=1)
        await rota_test.advance("1h")
        (fire,) = await schedule.history()
        (same,) = [info async for info in (await app._core.planning()).all()]
    assert fire.state is State.SUCCEEDED
    assert same.name == "ping"
    (asked,) = server.asked
    when = asked.headers["x-when"]
    assert asked.path == f"/at?t={when.replace('+', '%2B')}"
    assert asked.body == f'{{"when":"{when}"}}'.encode()
    with pytest.raises(InvalidInput, match="args"):
        await app.schedule("ping", call, args={"a": 1}, every="1h")
    with pytest.raises(InvalidInput, match="option"):
        await app.schedule("ping", call, cwd="/", every="1h")


async def test_orders_that_are_refused(tmp_path: Path) -> None:
    app = rota.App(f"sqlite:///{tmp_path / 'rota.db'}", max_args=2_000)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"json": {}, "body": "x"}, "body and json"), ({"json": float("nan")}, "json"), ({"json": object()}, "json"),
        ({"headers": {"A": "b\r\nC: d"}}, "header A"), ({"headers": "A: b", "json": 1}, "headers"),
        ({"name": ""}, "task name"), ({"bodi": "x"}, "option: .bodi. .* headers, json, body, "),
        ({"expect": "all"}, "expected statuses"),
        ({"redirects": -1}, "redirects"), ({"priority": 99}, "priority"),
    ]  # fmt: skip
    for words, text in wrong:
        with pytest.raises(InvalidInput, match=text):
            await app.submit_http("GET", "http://a/", **words)
    with pytest.raises(TooLarge):
        await app.submit_http("POST", "http://a/", body="x" * 2_000)
    with pytest.raises(InvalidInput, match="url"):
        await app.submit_http("GET", "http://user:secret@a/")
    assert list(tmp_path.iterdir()) == []  # what is refused makes no store
    await app.close()


def test_without_an_event_loop_and_with_keys(tmp_path: Path) -> None:
    app = rota.App(f"sqlite:///{tmp_path / 'rota.db'}")
    job = app.submit_http_sync("GET", "http://a/", key="k", headers={"A": "1"})
    assert app.submit_http_sync("GET", "http://a/", key="k", headers={"A": "1"}).id == job.id
    with pytest.raises(KeyConflict):
        app.submit_http_sync("GET", "http://a/", key="k", headers={"A": "2"})
    app.close_sync()


async def test_within_the_callers_transaction(server: Web) -> None:
    import asyncpg

    with migrated_database() as url:
        app = make_app(url)
        async with running(app):
            connection = await asyncpg.connect(url)
            async with connection.transaction():
                job = await app.submit_http("GET", server.on("/", reply(200, "x")), within=connection)
            assert (await job.wait(LONG)).state is State.SUCCEEDED
            await connection.close()

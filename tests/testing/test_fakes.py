"""Commands and HTTP calls in a harness: answered by fakes, judged as on a node, never run unless that is asked for."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import rota
from rota import testing
from rota.errors import InvalidInput, JobFailed
from rota.model.lifecycle import State

app = rota.App("sqlite:///never-made.db", user="me")


async def test_a_faked_command_is_judged_as_a_real_one() -> None:
    async with testing.harness(app) as rota_test:
        fake = rota_test.fake_command("convert", stdout="done\n", stderr=b"careful\n")
        rota_test.fake_command(["convert", "bad.png"], exit_code=3)
        good = await app.submit_command(["/usr/bin/convert", "a.png"], env={"X": "1"}, stdin="in")
        bad = await app.submit_command(["convert", "bad.png"], fatal_exit_codes=[3])
        await rota_test.drain()
        assert sorted((await good.logs()).split()) == ["careful", "done"]
        assert [(call.argv[1], call.env, call.stdin) for call in fake.calls] == [("a.png", {"X": "1"}, "in")]
        info = await bad.info()
        assert (info.state, info.failures, info.attempts[0].exit_code) == (State.FAILED, 1, 3)


async def test_a_fake_may_answer_a_number_of_times() -> None:
    async with testing.harness(app) as rota_test:
        rota_test.fake_command("sync", stdout="well")
        failing = rota_test.fake_command("sync", exit_code=1, times=2)
        job = await app.submit_command(["sync"], retry=rota.Retry(5, backoff="1h", jitter=0))
        await rota_test.drain()
        info = await job.info()
    assert (info.state, info.failures, len(failing.calls)) == (State.SUCCEEDED, 2, 2)


async def test_a_faked_call_is_judged_as_a_real_one() -> None:
    url = "https://api.example.com/orders"
    async with testing.harness(app) as rota_test:
        rota_test.fake_http(url, status=201, json={"order": 1})
        busy = rota_test.fake_http(url, method="POST", status=503, headers={"Retry-After": "3600"}, times=1)
        job = await app.submit_http("POST", url + "?a=1", json={"article": "book"}, headers={"X-From": "shop"})
        await rota_test.drain()
        info = await job.info()
    assert info.result == {"status": 201, "headers": {"content-type": "application/json"}, "body": {"order": 1}}
    assert info.attempts[1].started_at - info.attempts[0].started_at == timedelta(hours=1)
    (request,) = busy.calls
    assert (request.method, request.url, request.json) == ("POST", url + "?a=1", {"article": "book"})
    assert (request.headers["x-from"], request.headers["rota-job"]) == ("shop", job.id)


async def test_redirects_errors_and_patterns() -> None:
    async with testing.harness(app) as rota_test:
        rota_test.fake_http("https://EXAMPLE.com:443/old", status=302, headers={"Location": "https://two.example/new"})
        rota_test.fake_http("https://two.example/*", body="text", headers={"content-type": "text/plain"})
        rota_test.fake_http("http://down.example/", error="connection refused", times=1)
        rota_test.fake_http("https://one.example/?page=1", status=404)
        moved = await app.submit_http("GET", "https://example.com/old")
        down = await app.submit_http("GET", "http://down.example", retry=0)
        missing = await app.submit_http("GET", "https://one.example/?page=1")
        await rota_test.drain()
        assert (await moved.result())["body"] == "text"
        with pytest.raises(JobFailed, match="connection refused"):
            await down.result()
        with pytest.raises(JobFailed, match="status 404"):
            await missing.result()


async def test_what_is_not_faked_does_not_run_and_says_what_to_do(tmp_path: Path) -> None:
    async with testing.harness(app) as rota_test:
        rota_test.fake_command("convert")
        rota_test.fake_http("https://example.com/hook", method="POST")
        command = await app.submit_command(["/bin/touch", str(tmp_path / "made")])
        call = await app.submit_http("GET", "https://example.com/hook?token=secret", retry=5)
        await rota_test.drain()
        for job, fake, option in ((command, "fake_command('touch'", "commands"), (call, "fake_http(", "http")):
            info = await job.info()
            assert (info.state, len(info.attempts)) == (State.FAILED, 1), "another try would not help"
            assert info.error is not None
            assert fake in info.error.message
            assert f"harness(app, allow_{option}=True)" in info.error.message
            assert "secret" not in info.error.message
    assert not list(tmp_path.iterdir())


async def test_fakes_come_before_what_is_allowed() -> None:
    async with testing.harness(app, allow_commands=True) as rota_test:
        rota_test.fake_command(["echo", "a"], stdout="faked")
        jobs = [await app.submit_command(["echo", word]) for word in ("a", "b")]
        await rota_test.drain()
        assert [await job.logs() for job in jobs] == ["faked", "b\n"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda one: one.fake_command(""), "command: ''"),
        (lambda one: one.fake_command([]), "command: "),
        (lambda one: one.fake_command(7), "command: 7"),
        (lambda one: one.fake_command("a", exit_code=256), "exit_code: 256"),
        (lambda one: one.fake_command("a", stdout=7), "stdout: 7"),
        (lambda one: one.fake_command("a", times=0), "times: 0"),
        (lambda one: one.fake_http("example.com"), "url: 'example.com'"),
        (lambda one: one.fake_http("https://"), "URL|url"),
        (lambda one: one.fake_http("https://a.example", method="post"), "method: 'post'"),
        (lambda one: one.fake_http("https://a.example", status=99), "status: 99"),
        (lambda one: one.fake_http("https://a.example", json=1, body="1"), "body and json"),
        (lambda one: one.fake_http("https://a.example", json=object()), "json"),
        (lambda one: one.fake_http("https://a.example", headers=["a"]), "headers"),
        (lambda one: one.fake_http("https://a.example", error=7), "error: 7"),
    ],
)
async def test_a_wrong_fake_is_refused(call: Any, message: str) -> None:
    async with testing.harness(app) as rota_test:
        with pytest.raises(InvalidInput, match=message):
            call(rota_test)

"""Secrets of jobs, on real nodes: what all kinds of attempts say, and what people see of their orders."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

import rota
from rota.model.lifecycle import State
from rota.model.trigger import template
from rota.telemetry.events import AttemptEnded
from rota.views.jobs import JobView
from rota.views.schedules import TemplateView
from tests.node.running import LONG, make_app, running
from tests.servers.web import reply, web
from tests.work.functions import app as tasks
from tests.work.functions.nodes import node, run

PASSWORD, TOKEN, OF_NODE = "hunter2/é+x", "tok-en 4711", "node's own"
ALL = (PASSWORD, TOKEN, OF_NODE)


def hidden(told: object) -> bool:
    text = str(told)
    return "***" in text and not any(secret in text or repr(secret)[1:-1] in text for secret in ALL)


@pytest.mark.sampled
@pytest.mark.parametrize("task", [tasks.tells, tasks.async_tells], ids=["pool", "host"])
async def test_functions_in_other_processes(
    tmp_path: Path, task: rota.Task[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", OF_NODE)
    async with node(tmp_path) as probe:
        job = await task.submit(password=PASSWORD, fetched=TOKEN)
        info = await job.wait(LONG)
        assert info.result == {"mine": "***:***", "***": ["***", 1, True]}
        assert (await job.logs()).splitlines() == [
            "***", "password ***, token ***, of the node ***", "logged password='***' token='***'",
        ]  # fmt: skip
        assert info.progress is not None
        assert info.progress.text == "with ***"
        bad = await run(task.submit(password="bad" + PASSWORD, fetched=TOKEN))
        assert bad.error is not None
        assert bad.error.message == bad.reason == "refused: *** '***'"
        assert hidden(bad.error.trace)
        assert hidden([event for event in probe.seen if isinstance(event, AttemptEnded)])
    assert (info.args, info.spec["secrets"]) == ({"password": "***", "fetched": TOKEN}, ["SHOP_TOKEN", "password"])


async def test_functions_in_the_node(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    kept: list[str] = []

    @app.task(secrets=["login.token"])
    async def careful(ctx: rota.Context, login: dict[str, Any]) -> list[str]:
        kept.append(ctx.mask(login["name"]))
        print(login["token"], end=" ")
        print(login["name"])
        return [base64.b64encode(f"ann:{login['token']}".encode()).decode(), quote(login["token"])]

    @app.task
    def plain(secret: str) -> str:
        print(secret)
        return secret

    @app.task
    def child(given: list[Any], key: str) -> str:
        print(given, key)
        raise ValueError(given[0])

    async with running(app):
        job = await careful.submit(login={"token": PASSWORD, "name": TOKEN, "x": 1})
        info = await job.wait(LONG)
        assert kept == [TOKEN]
        assert await job.logs() == "*** ***\n"
        assert info.result[1] == "***"
        assert info.result[0].endswith("***") or info.result[0].count("***") == 1
        assert info.args == {"login": {"token": "***", "name": TOKEN, "x": 1}}
        # By the order.
        again = await plain.options(secrets="secret").submit(secret=PASSWORD)
        assert (await again.wait(LONG)).result == "***"
        # A result of another job that is declared to be one.
        first = await plain.submit(secret=TOKEN)
        second = await child.options(secrets=["given"], retry=0).submit(given=[first], key="k")
        failed = await second.wait(LONG)
        assert await second.logs() == "['***'] k\n"
        assert (failed.reason, failed.error.message if failed.error else "") == ("***", "***")


async def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", OF_NODE)
    app = make_app(tmp_path, command_env="SHOP_TOKEN")
    script = """
        printf %s "$API_KEY" | cut -c1-3 | tr -d '\\n'; sleep 0.05; printf %s "$API_KEY" | cut -c4-
        echo "$SHOP_TOKEN" >&2; printf '\\377%s\\377' "$API_KEY"; echo "0.5 with $API_KEY" >&3
        printf %s "$SHOP_TOKEN" | head -c 4
    """
    async with running(app):
        job = await app.submit_command(
            ["sh", "-c", script, "--", f"-p{TOKEN}"], env={"API_KEY": TOKEN, "MODE": "fast"}, inherit=["SHOP_TOKEN"],
            secrets=["API_KEY", "SHOP_TOKEN"],
        )  # fmt: skip
        info = await job.wait(LONG)
        said: dict[str, bytes] = {}
        async for chunk in job.output():
            said[chunk.stream] = said.get(chunk.stream, b"") + chunk.body
    assert said == {"stdout": b"***\n\xff***\xff" + OF_NODE[:4].encode(), "stderr": b"***\n"}
    assert info.progress is not None
    assert info.progress.text == "with ***"
    assert info.state is State.SUCCEEDED
    assert info.spec["env"] == {"API_KEY": "***", "MODE": "fast"}
    assert info.spec["argv"][-1] == "-p***"
    assert hidden(msgspec.json.encode(JobView.of(info)).decode())


async def test_the_spool_of_the_node_never_holds_them(tmp_path: Path) -> None:
    app = make_app(tmp_path, spool=str(tmp_path / "spool"))
    script = 'echo "key $API_KEY"; until test -e end; do sleep 0.01; done'
    async with running(app):
        job = await app.submit_command(
            ["sh", "-c", script], cwd=str(tmp_path), env={"API_KEY": TOKEN}, secrets=["API_KEY"]
        )
        async for chunk in job.output(follow=True):
            assert chunk.body == b"key ***\n"
            (tmp_path / "end").touch()
            kept = b"".join(file.read_bytes() for file in (tmp_path / "spool").rglob("*") if file.is_file())
            assert b"key ***" in kept
            assert TOKEN.encode() not in kept
        assert (await job.wait(LONG)).state is State.SUCCEEDED


async def test_http_calls(tmp_path: Path) -> None:
    app = make_app(tmp_path, http_allow="127.0.0.1")
    with web() as server:
        body = msgspec.json.encode({"you sent": [f"Bearer {TOKEN}", PASSWORD], "token": TOKEN}).decode()
        good = server.on("/good", reply(200, body, content_type="application/json"))
        async with running(app):
            job = await app.submit_http(
                "POST", good, json={"password": PASSWORD}, headers={"Authorization": f"Bearer {TOKEN}"},
                secrets=["password"],
            )  # fmt: skip
            info = await job.wait(LONG)
            assert info.result["body"] == {"you sent": ["***", "***"], "token": "***"}
            assert hidden(await job.logs())
            assert info.spec["secrets"] == ["password"]
            assert server.asked[0].body == msgspec.json.encode({"password": PASSWORD})


async def test_schedules_and_what_is_shown_of_them(tmp_path: Path) -> None:
    app = make_app(tmp_path)

    @app.task(secrets=["password"])
    def nightly(password: str, mode: str) -> str:
        return password + mode

    async with running(app):
        schedule = await app.schedule("n", nightly, args={"password": PASSWORD, "mode": "fast"}, cron="@daily")
        stored = await (await app._core.planning()).get("n")
        view = TemplateView.of(template.from_json(stored.work))
        assert view.args == {"password": "***", "mode": "fast"}
        assert hidden(view)
        assert hidden(await app.schedules())
        job = await schedule.fire()
        assert job is not None
        assert (await job.wait(LONG)).result == "***fast"

"""The calls of the page on the resources of the HTTP API are answered, in the order in which they stand there."""

from __future__ import annotations

import shlex
from string import Template

from rota.model.task import TaskInfo
from rota.model.times import HOUR
from tests.api.described import DescribedCaller
from tests.api.resources.conftest import ANN
from tests.contracts.world import World
from tests.docs.pages import blocks

PAGE = "docs/resources.md"


def calls() -> list[list[str]]:
    words = [shlex.split(text) for text in blocks(PAGE, "sh")]
    variables = dict(part.split("=", 1) for part in words[0][1:])
    found: list[list[str]] = []
    for word in (word for block in words[1:] for word in block):
        if word == "curl":
            found.append([])
        else:
            found[-1].append(Template(word).safe_substitute(variables))
    return found


async def test_the_calls_of_the_page_are_answered(world: World) -> None:
    await world.node(tasks=[TaskInfo("hello", ("name",), ("name",))])
    await world.store.acquire_lock(ANN, "report", "a holder", HOUR)
    caller = DescribedCaller(world)
    made = calls()
    assert len(made) > 20
    for words in made:
        headers, method, body, url = {}, None, b"", ""
        rest = iter(words)
        for word in rest:
            match word:
                case "-H":
                    name, _, value = next(rest).partition(": ")
                    headers[name.lower()] = value
                case "-X":
                    method = next(rest)
                case "-d":
                    body = next(rest).encode()
                case _:
                    url = word
        assert headers.pop("authorization") == "Bearer $ROTA_KEY"
        path = url.removeprefix("http://127.0.0.1:8787")
        reply = await caller.call(method or ("POST" if body else "GET"), path, body=body, headers=headers)
        assert reply.status in (200, 201, 204), (words, reply)

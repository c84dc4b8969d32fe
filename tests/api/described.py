"""A caller that holds every answer against the OpenAPI document."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema_rs
import msgspec

from rota.api.app import table
from rota.api.openapi import document
from rota.api.routes import Route
from tests.api.caller import Caller, Reply


@cache
def own_document() -> Any:
    return msgspec.json.decode(msgspec.json.encode(document(table())))


# Headers of every answer over HTTP, and of bodies.
_TRANSPORT = {"content-length", "content-type"}


@cache
def _answer(method: str, path: str, status: int) -> Any:
    """None: the document has no such answer."""
    answer = own_document()["paths"][path][method.lower()]["responses"].get(str(status))
    if answer is not None and "$ref" in answer:
        answer = own_document()["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    return answer


@cache
def _validator(method: str, path: str, status: int, media: str) -> Any:
    schema = _answer(method, path, status)["content"][media]["schema"]
    return jsonschema_rs.validator_for(schema | {"components": own_document()["components"]})


def check_described(route: Route, reply: Reply) -> None:
    """Fails unless the document has the status, the headers, the media type and the body of the answer."""
    answer = _answer(route.method, route.path, reply.status)
    assert answer is not None, f"{route.method} {route.path}: the document does not know {reply}"
    told = {name.lower() for name in answer["headers"]}
    assert reply.headers.keys() <= told | _TRANSPORT, f"{route.method} {route.path}: {reply.headers}"
    media = reply.headers.get("content-type")
    assert (media is None) == ("content" not in answer), f"{route.method} {route.path}: {reply}"
    if media is None:
        assert reply.body == b""
        return
    assert media in answer["content"], f"{route.method} {route.path}: {media}"
    if media.endswith("json"):
        _validator(route.method, route.path, reply.status, media).validate(reply.json)


class DescribedCaller(Caller):
    async def call(self, method: str, path: str, *args: Any, **more: Any) -> Reply:
        reply = await super().call(method, path, *args, **more)
        found = self.api.table.find(path.partition("?")[0])
        assert found is not None, path
        check_described(found[0][method], reply)
        return reply

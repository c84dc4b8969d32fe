"""A caller that holds every answer against the OpenAPI document."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema_rs
import msgspec

from rota.api.app import table
from rota.api.openapi import document
from tests.api.caller import Caller, Reply


@cache
def own_document() -> Any:
    return msgspec.json.decode(msgspec.json.encode(document(table())))


@cache
def _validator(method: str, path: str, status: int) -> Any:
    """None: the document has no such answer; True: it has no body."""
    responses = own_document()["paths"][path][method.lower()]["responses"]
    answer = responses.get(str(status))
    if answer is None:
        return None
    if "$ref" in answer:
        answer = own_document()["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    if "content" not in answer:
        return True
    content = answer["content"].get("application/json") or next(iter(answer["content"].values()))
    return jsonschema_rs.validator_for(content["schema"] | {"components": own_document()["components"]})


class DescribedCaller(Caller):
    async def call(self, method: str, path: str, *args: Any, **more: Any) -> Reply:
        reply = await super().call(method, path, *args, **more)
        found = self.api.table.find(path.partition("?")[0])
        assert found is not None, path
        route = found[0][method]
        validator = _validator(method, route.path, reply.status)
        assert validator is not None, f"{method} {route.path}: the document does not know {reply}"
        if validator is True:
            assert reply.body == b""
        else:
            validator.validate(reply.json)
        return reply

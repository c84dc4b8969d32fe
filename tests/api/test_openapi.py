"""The document: valid, complete, and the same routes as the table."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from rota import api
from rota.api.app import table
from rota.api.examples import EXAMPLES
from rota.api.openapi import TAKEN, document
from rota.api.problems import codes
from rota.api.requests import Request
from rota.api.routes import PUBLIC, Routes, Table
from rota.model.access import Permission
from rota.remote.problems import KINDS
from tests.api.caller import Caller
from tests.contracts.world import World


class Weight(msgspec.Struct):
    grams: int


class Search(msgspec.Struct):
    state: list[str]
    limit: int | None = None


MADE = Routes("test")


@MADE.put("/a/{name}", Permission.ORDER, "Puts", problems=(409,))
async def put(request: Request[Weight | None, Search]) -> list[Weight]: ...  # type: ignore[empty-body]


@pytest.fixture(scope="module")
def own() -> Any:
    return json.loads(msgspec.json.encode(document(table())))


def test_every_route_is_in_it_and_nothing_else(own: Any) -> None:
    told = {(method.upper(), path) for path, operations in own["paths"].items() for method in operations}
    assert told == {(route.method, route.path) for route in table()}
    for route in table():
        operation = own["paths"][route.path][route.method.lower()]
        assert operation["operationId"] == route.name
        assert operation["summary"]
        assert (operation.get("security") == []) == (route.permission is PUBLIC)
        assert str(route.status) in operation["responses"]
        assert route.permission is PUBLIC or {"401", "403", "429"} <= operation["responses"].keys()
        named = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
        assert named == set(route.parts)


def test_all_its_schemas_are_valid_and_all_references_lead_somewhere(own: Any) -> None:
    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if "$ref" in value:
                place: Any = own
                for part in value["$ref"].removeprefix("#/").split("/"):
                    place = place[part]
            if "schema" in value:
                jsonschema_rs.meta.validate(value["schema"])
            value = list(value.values())
        if isinstance(value, list):
            for one in value:
                walk(one)

    walk(own)
    for schema in own["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)


def test_it_keeps_the_specification(own: Any) -> None:
    assert [str(error) for error in OpenAPIV31SpecValidator(own).iter_errors()] == []


def test_every_example_is_valid_and_every_body_that_people_write_has_one(own: Any) -> None:
    written = {route.name for route in table() if route.body is not None and route.tag not in ("calls", "worker")}
    assert set(EXAMPLES) == written
    for route in table():
        if route.name in EXAMPLES:
            content = own["paths"][route.path][route.method.lower()]["requestBody"]["content"]["application/json"]
            schema = content["schema"] | {"components": own["components"]}
            jsonschema_rs.validator_for(schema).validate(content["example"])


def test_every_code_of_a_refusal_is_told_with_its_status() -> None:
    """Codes that are written in the source, by the statuses that they are written with."""
    pattern = re.compile(r"Refusal\(\s*(\d{3}), \"([a-z_]+)\"")
    sources = [path.read_text() for path in Path(api.__path__[0]).rglob("*.py")]
    written = {(int(status), code) for text in sources for status, code in pattern.findall(text)}
    assert len(written) > 15
    assert written <= {(status, code) for status, names in codes().items() for code in names}


def test_every_code_is_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
    missing = [code for names in codes().values() for code in names if code not in KINDS and f"`{code}`" not in text]
    assert not missing


def test_a_route_is_told_in_full() -> None:
    made = json.loads(msgspec.json.encode(document(Table([MADE]))))
    operation = made["paths"]["/a/{name}"]["put"]
    assert operation["parameters"] == [
        {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}},
        {"name": "state", "in": "query", "required": True, "schema": {"type": "array", "items": {"type": "string"}}},
        {"name": "limit", "in": "query", "required": False, "schema": {"type": "integer"}},
        {
            "name": "Idempotency-Key", "in": "header", "required": False, "description": TAKEN["Idempotency-Key"],
            "schema": {"type": "string", "pattern": "^[!-~]([ -~]*[!-~])?$", "maxLength": 255},
        },
    ]  # fmt: skip
    assert not operation["requestBody"]["required"]
    answer = operation["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer == {"type": "array", "items": {"$ref": "#/components/schemas/Weight"}}
    assert {"400", "401", "403", "404", "409", "413", "415", "429", "500", "503"} <= operation["responses"].keys()
    assert "Search" not in made["components"]["schemas"]
    problem = made["components"]["responses"]["409"]["content"]["application/problem+json"]["schema"]
    named = {"status": {"const": 409}, "code": {"enum": codes()[409]}}
    assert problem == {"allOf": [{"$ref": "#/components/schemas/ProblemBody"}, {"properties": named}]}


async def test_it_is_served_to_everyone(world: World, own: Any) -> None:
    reply = await Caller(world).get("/api/v1/openapi.json", key=None)
    assert (reply.status, reply.headers["content-type"], reply.json) == (200, "application/json", own)

"""The OpenAPI document, made from the table of routes and the types of its handlers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import Any, get_args

import msgspec

from rota import __version__
from rota.api.problems import MEDIA, ProblemBody
from rota.api.requests import Request
from rota.api.routes import ANY_KEY, IDEMPOTENCY_KEY, PUBLIC, Route, Routes, Table

ROUTES = Routes("document")
REFERENCE = "#/components/schemas/{name}"
ETAG, IF_MATCH, IF_NONE_MATCH = "ETag", "If-Match", "If-None-Match"
HEADERS = {
    ETAG: "The version of what can be edited. Only edits change it.",
    IF_MATCH: "Do it only if the version is still this one; otherwise 412.",
    IF_NONE_MATCH: "Answer 304 if the version is this one; of an edit: `*` adds only what is not there.",
    IDEMPOTENCY_KEY: "The same request again has the same answer and no second effect; another request gives 422.",
}
_EVERY_ROUTE = {400, 421, 431, 500, 503}  # also a public one without parameters: its Host may be wrong, for example
_KEYED = {401, 403, 429}
_WITH_BODY = {408, 413, 415}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The whole document of these routes."""
    routes = list(routes)
    schemas = _Schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "rota", "version": __version__, "license": {"name": "MIT", "identifier": "MIT"}},
        "paths": paths,
        "tags": [{"name": name} for name in sorted({route.tag for route in routes})],
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "A key: rota_..."}},
            "responses": {str(status): _problem(status, schemas) for status in _statuses(routes)},
        },
        "security": [{"key": []}],
    }


class _Schemas:
    """The schemas of all types that the routes name. Types are found by identity: not all can be keys of a dict."""

    def __init__(self, routes: list[Route]) -> None:
        queries = [route.query for route in routes if route.query is not None]
        kinds = [ProblemBody, *(kind for route in routes for kind in (route.body, route.answer) if kind is not None)]
        found, components = msgspec.json.schema_components(
            [*kinds, *queries], ref_template=REFERENCE, schema_hook=_anything
        )
        self._schemas = list(zip([*kinds, *queries], found, strict=True))
        references = {self.of(query)["$ref"] for query in queries}  # several routes may share a type
        self._queries = {one: components.pop(one.rpartition("/")[2]) for one in references}
        self.components = dict(sorted(components.items()))

    def of(self, kind: Any) -> Any:
        return next(schema for one, schema in self._schemas if one is kind)

    def parameters(self, query: Any) -> list[dict[str, Any]]:
        """The parameters of a query, from the schema of its struct."""
        struct = self._queries[self.of(query)["$ref"]] if query is not None else {}
        needed = struct.get("required", [])
        return [
            {"name": name, "in": "query", "required": name in needed, "schema": _without_null(schema)}
            for name, schema in struct.get("properties", {}).items()
        ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter that has no value is left out, and never null."""
    made = {name: value for name, value in schema.items() if (name, value) != ("default", None)}
    kinds = [one for one in made.get("anyOf", []) if one != {"type": "null"}]
    if kinds:
        del made["anyOf"]
        made |= kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    return made


def _operation(route: Route, schemas: _Schemas) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": [*map(_part, route.parts), *schemas.parameters(route.query), *map(_header, route.takes)],
        "responses": {
            **{str(status): _success(route, schemas, status) for status in (route.status, *route.also)},
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(_problems(route))},
        },
    }
    if route.permission is PUBLIC:
        made["security"] = []
    elif route.permission is not ANY_KEY:
        made["description"] = f"Needs the permission `{route.permission}`."
    if route.body is not None:
        optional = type(None) in get_args(route.body)
        content = {"application/json": {"schema": schemas.of(route.body)}}
        made["requestBody"] = {"required": not optional, "content": content}
    return made


def _part(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _header(name: str) -> dict[str, Any]:
    return {
        "name": name, "in": "header", "required": False, "description": HEADERS[name],
        "schema": {"type": "string", "pattern": "^[!-~]([ -~]*[!-~])?$", "maxLength": 255},
    }  # fmt: skip


def _success(route: Route, schemas: _Schemas, status: int) -> dict[str, Any]:
    made: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if {IF_MATCH, IF_NONE_MATCH} & {*route.takes} and status != 204:
        made["headers"] = {ETAG: {"description": HEADERS[ETAG], "schema": {"type": "string"}}}
    if status == 304:
        return made
    content: dict[str, Any] = {}
    if route.media is not None:
        content[route.media] = {"schema": {"type": "string"}}
    if route.answer is not None:
        content["application/json"] = {"schema": schemas.of(route.answer)}
    return made | ({"content": content} if content else {})


def _problems(route: Route) -> set[int]:
    found = _EVERY_ROUTE | set(route.problems)
    if route.permission is not PUBLIC:
        found |= _KEYED
    if route.parts or route.query is not None or route.body is not None:
        found.add(404)  # something that the request names
    if route.body is not None:
        found |= _WITH_BODY
    return found


def _statuses(routes: list[Route]) -> list[int]:
    return sorted(set().union(*map(_problems, routes)))


def _problem(status: int, schemas: _Schemas) -> dict[str, Any]:
    made: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if status >= 400:
        made["content"] = {MEDIA: {"schema": schemas.of(ProblemBody)}}
    if status in (409, 429, 503):  # of 409: while the first try of the request runs
        wait = {"description": "Seconds to wait before the next try", "schema": {"type": "string"}}
        made["headers"] = {"Retry-After": wait}
    return made


@ROUTES.get("/api/v1/openapi.json", PUBLIC, "This document")
async def get_openapi(request: Request[None, None]) -> dict[str, Any]:
    return _encoded(request.desk.table)  # type: ignore[return-value]


@lru_cache(maxsize=4)
def _encoded(table: Table) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(document(table)))


def _anything(kind: type) -> dict[str, Any]:
    """The schema of a value that may be any JSON."""
    if kind is object:
        return {"description": "any JSON value"}
    raise NotImplementedError

"""The OpenAPI document, made from the table of routes and the types of its handlers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import Any, get_args

import msgspec

from rota import __version__
from rota.api.examples import EXAMPLES
from rota.api.problems import MEDIA, ProblemBody, codes
from rota.api.requests import Request
from rota.api.routes import ANY_KEY, PUBLIC, Route, Routes, Table
from rota.remote.hello import IDEMPOTENCY_KEY

ROUTES = Routes("document")
REFERENCE = "#/components/schemas/{name}"
ABOUT = """HEAD is answered as GET is, without the body, on every GET that is no stream. OPTIONS answers 204 with the
methods of a path in `Allow`. Other methods get 405, other paths 404; both are `application/problem+json`, as all
refusals are. A field or a parameter that a route does not know is refused."""
# Headers of requests and of answers, and what they mean.
TAKEN = {
    "If-Match": "Do it only if the version is still this one; otherwise 412.",
    "If-None-Match": "Answer 304 if the version is this one; of an edit: `*` adds only what is not there.",
    IDEMPOTENCY_KEY: "The same request again has the same answer and no second effect; another request gives 422.",
    "Last-Event-ID": "The id of the last piece that is known: the stream goes on behind it, as with `after`.",
    "Rota-Version": "The version of a client of rota's own; one that does not fit gets 426.",
    "Rota-Repeat": "Says that this order may have been carried out before.",
}
GIVEN = {
    "Allow": "The methods of this path",
    "Cache-Control": "Always `no-store`: an answer belongs to one caller.",
    "ETag": "The version of what can be edited. Only edits change it.",
    "Retry-After": "Seconds to wait before the next try",
    "Rota-Time": "The time of the store, in microseconds since 1970",
    "Rota-Version": "The version of the server",
    "WWW-Authenticate": "How to send a key",
    "X-Accel-Buffering": "Always `no`: a proxy must pass pieces on as they come.",
    "X-Content-Type-Options": "Always `nosniff`",
}
_ALWAYS = ("Cache-Control", "X-Content-Type-Options")
_OF_PROBLEMS = {
    401: ("WWW-Authenticate",), 405: ("Allow",), 409: ("Retry-After",), 426: ("Rota-Version", "Rota-Time"),
    429: ("Retry-After", "WWW-Authenticate"), 503: ("Retry-After",),
}  # fmt: skip
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
        "info": {
            "title": "rota",
            "version": __version__,
            "description": ABOUT.replace("\n", " "),
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": paths,
        "tags": [{"name": name} for name in sorted({route.tag for route in routes})],
        "components": {
            "schemas": schemas.components,
            "headers": {name: {"description": what, "schema": {"type": "string"}} for name, what in GIVEN.items()},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "A key: rota_..."}},
            "responses": {str(status): _problem(status, schemas) for status in [*_statuses(routes), 405]},
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
        content = {"schema": schemas.of(route.body)}
        if route.name in EXAMPLES:
            content["example"] = EXAMPLES[route.name]
        made["requestBody"] = {"required": not optional, "content": {"application/json": content}}
    return made


def _part(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _header(name: str) -> dict[str, Any]:
    return {
        "name": name, "in": "header", "required": False, "description": TAKEN[name],
        "schema": {"type": "string", "pattern": "^[!-~]([ -~]*[!-~])?$", "maxLength": 255},
    }  # fmt: skip


def _success(route: Route, schemas: _Schemas, status: int) -> dict[str, Any]:
    gives = [name for name in route.gives if (name, status) != ("ETag", 204)]
    made = _answer(status, (*gives, *(("X-Accel-Buffering",) if route.media is not None else ())))
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
    own = {"properties": {"status": {"const": status}, "code": {"enum": codes()[status]}}}
    schema = {"allOf": [schemas.of(ProblemBody), own]}
    return _answer(status, _OF_PROBLEMS.get(status, ())) | {"content": {MEDIA: {"schema": schema}}}


def _answer(status: int, headers: Iterable[str]) -> dict[str, Any]:
    named = {name: {"$ref": f"#/components/headers/{name}"} for name in sorted({*headers, *_ALWAYS})}
    return {"description": HTTPStatus(status).phrase, "headers": named}


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

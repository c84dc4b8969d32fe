"""The table of routes. Dispatch, checks, the OpenAPI document and the test that walks all routes are made from it.

A family of routes is a `Routes` list in its module. A route is declared beside its handler, and its types are those of
the handler's annotations:

    ROUTES = Routes("jobs")

    @ROUTES.get("/api/v1/jobs/{id}", Permission.READ, "A job with its attempts")
    async def get_job(request: Request[None, None]) -> JobView: ...

Paths are exact: no trailing slash, no other case, no other spelling by percent signs.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from inspect import signature
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import unquote

from rota.api.answers import EVENTS, Answer, Stream
from rota.api.requests import Request
from rota.model.access import Permission
from rota.remote.hello import IDEMPOTENCY_KEY

H = TypeVar("H", bound=Callable[[Request[Any, Any]], Awaitable[Any]])
OF_REPEATS = (409, 422)  # the refusals that an Idempotency-Key brings
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_PART = re.compile(r"\{([a-z_]+)\}")
_LITERAL = re.compile(r"[a-z0-9_.-]+")
# An unreserved character has one spelling only: without a percent sign.
_NEEDLESS = re.compile(r"%(?:2[dD]|2[eE]|3[0-9]|[46][1-9a-fA-F]|[57][0-9aA]|5[fF]|7[eE])")
_BROKEN = re.compile(r"%(?![0-9a-fA-F]{2})")


class Public(Enum):
    PUBLIC = "public"  # needs no key
    ANY_KEY = "any key"  # needs a valid key, of whatever role


PUBLIC, ANY_KEY = Public


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One operation. `body`, `query` and `answer` are types; None: there is none. `media` is the type of a stream.
    `also`: other statuses of success. `takes`: the headers that the handler reads; `gives`: those of its answers.
    `keyed`: repeats are recognised by their Idempotency-Key before the handler (`api.repeats`)."""

    method: str
    path: str
    permission: Permission | Public
    handler: Callable[[Request[Any, Any]], Awaitable[Any]]
    summary: str
    tag: str
    body: Any = None
    query: Any = None
    answer: Any = None
    status: int = 200
    media: str | None = None
    problems: tuple[int, ...] = ()  # statuses beside those that every route of its shape may answer with
    also: tuple[int, ...] = ()
    takes: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    keyed: bool = False
    parts: tuple[str, ...] = field(init=False)  # the names of the path's variable parts

    @property
    def name(self) -> str:
        """The operationId of the document."""
        return self.handler.__name__

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(_PART.findall(self.path)))


class Routes(list[Route]):
    """The routes of one family, which share a tag of the document."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        self.tag = tag

    def add(
        self,
        method: str,
        path: str,
        permission: Permission | Public,
        summary: str,
        *,
        status: int | None = None,
        media: str | None = None,
        problems: tuple[int, ...] = (),
        also: tuple[int, ...] = (),
        takes: tuple[str, ...] = (),
        gives: tuple[str, ...] = (),
    ) -> Callable[[H], H]:
        """Declares a route. `status`: 200, or 204 for a handler that returns None. `media`: the type of a stream. All
        methods but GET take an Idempotency-Key; a handler that reads it itself names it in `takes`."""
        keyed = method != "GET" and permission is not PUBLIC and IDEMPOTENCY_KEY not in takes
        if keyed:
            takes, problems = (*takes, IDEMPOTENCY_KEY), (*problems, *OF_REPEATS)

        def declare(handler: H) -> H:
            body, query, answer = _types(handler)
            streams = answer is Stream or Stream in get_args(answer)
            route = Route(
                method=method,
                path=path,
                permission=permission,
                handler=handler,
                summary=summary,
                tag=self.tag,
                body=body,
                query=query,
                answer=_beside_stream(answer) if streams else answer,
                status=status or (204 if answer is None else 200),
                media=media or (EVENTS if streams else None),
                problems=problems,
                also=also,
                takes=takes,
                gives=gives,
                keyed=keyed,
            )
            self.append(route)
            return handler

        return declare

    def get(self, path: str, permission: Permission | Public, summary: str, **more: Any) -> Callable[[H], H]:
        return self.add("GET", path, permission, summary, **more)

    def post(self, path: str, permission: Permission | Public, summary: str, **more: Any) -> Callable[[H], H]:
        return self.add("POST", path, permission, summary, **more)

    def put(self, path: str, permission: Permission | Public, summary: str, **more: Any) -> Callable[[H], H]:
        return self.add("PUT", path, permission, summary, **more)

    def patch(self, path: str, permission: Permission | Public, summary: str, **more: Any) -> Callable[[H], H]:
        return self.add("PATCH", path, permission, summary, **more)

    def delete(self, path: str, permission: Permission | Public, summary: str, **more: Any) -> Callable[[H], H]:
        return self.add("DELETE", path, permission, summary, **more)


def _types(handler: Callable[..., Any]) -> tuple[Any, Any, Any]:
    """The types of the body, the query and the answer, from the annotations of a handler."""
    hints = get_type_hints(handler)
    given = hints.get(next(iter(signature(handler).parameters)))
    if get_origin(given) is not Request or "return" not in hints:
        raise TypeError(f"{handler.__qualname__}: annotate it as (request: Request[Body, Query]) -> Answer")
    body, query = (None if kind is NoneType else kind for kind in get_args(given))
    answer = hints["return"]
    if get_origin(answer) is Answer:
        (answer,) = get_args(answer)
    return body, query, None if answer is NoneType else answer


def _beside_stream(answer: Any) -> Any:
    """The other type of a handler that answers with a stream or with a value: `-> Stream | Page[...]`."""
    others = [kind for kind in get_args(answer) if kind is not Stream]
    return others[0] if others else None


class _Step:
    """The next segment of a path: literal ones, or a variable part."""

    __slots__ = ("literal", "routes", "variable")

    def __init__(self) -> None:
        self.literal: dict[str, _Step] = {}
        self.variable: _Step | None = None
        self.routes: dict[str, Route] = {}


class Table:
    """All routes of a server, and the search in them."""

    def __init__(self, families: Iterable[Iterable[Route]]) -> None:
        self._root = _Step()
        self._routes: list[Route] = []
        for route in (route for family in families for route in family):
            self._add(route)

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes)

    def _add(self, route: Route) -> None:
        step = self._root
        if route.method not in METHODS or not route.path.startswith("/"):
            raise ValueError(f"not a route: {route.method} {route.path}")
        for segment in route.path[1:].split("/"):
            if _PART.fullmatch(segment):
                step.variable = step.variable or _Step()
                step = step.variable
            elif _LITERAL.fullmatch(segment):
                step = step.literal.setdefault(segment, _Step())
            else:
                raise ValueError(f"{route.path}: {segment!r} is neither a lower-case word nor {{a_part}}")
        if route.method in step.routes:
            raise ValueError(f"two routes {route.method} {route.path}")
        if any(other.name == route.name for other in self._routes):
            raise ValueError(f"{route.path}: another route is called {route.name}, too")
        step.routes[route.method] = route
        self._routes.append(route)

    def find(self, raw: str) -> tuple[dict[str, Route], list[str]] | None:
        """The routes of a path by their methods, and the values of its variable parts. `raw` is the path as it was
        sent; None: there is none."""
        if raw[:1] != "/":
            return None
        step, values = self._root, []
        for segment in raw[1:].split("/"):
            following = step.literal.get(segment)
            if following is None:
                value = _value(segment)
                if step.variable is None or value is None:
                    return None
                values.append(value)
                following = step.variable
            step = following
        return (step.routes, values) if step.routes else None


def _value(segment: str) -> str | None:
    """The text of a variable part. None: it can't be one. A name may contain a slash, sent as %2F: it never ends the
    part."""
    if "%" in segment:
        if _NEEDLESS.search(segment) or _BROKEN.search(segment):
            return None
        try:
            segment = unquote(segment, errors="strict")
        except UnicodeDecodeError:
            return None
    return segment if segment not in ("", ".", "..") and segment.isprintable() else None

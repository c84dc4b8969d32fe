"""Calls of rota's own clients: one route for each verb of the store that people may call (`remote.wire`).

Who may call is the declaration of the verb. What a verb gets from a client is checked as if a person had written it
(`api.call_checks`), and the user is that of the key.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from rota.api import repeated_orders
from rota.api.again import check_again
from rota.api.answers import Answer
from rota.api.call_checks import Sender, check
from rota.api.problems import Refusal
from rota.api.requests import Request
from rota.api.routes import OF_REPEATS, Route
from rota.clients.schedules import SchedulesClient
from rota.errors import InvalidInput, StoreError, WrongVersion
from rota.model.access import Permission
from rota.model.trigger.records import Advance, Fate
from rota.remote.hello import CALLS, IDEMPOTENCY_KEY, REPEAT, TIME
from rota.remote.versions import HEADER, OURS, understand
from rota.remote.wire import Call, calls
from rota.store.verbs import ADMIN, NODE, OPERATOR, READ, WRITE, Verb

Carry = Callable[[Request[Any, Any], dict[str, Any]], Awaitable[Any]]
Check = Callable[[str, dict[str, Any], Sender], None]
Steps = Callable[[SchedulesClient, Sequence[Advance]], Awaitable[list[list[Fate] | None]]]
ORDERS = "submit"  # repeats of orders are recognised by the ids of their jobs
# Verbs that need another permission than their declaration says.
PERMISSIONS = {
    "output": Permission.OUTPUT,
    "segments": Permission.OUTPUT,
    "find_lines": Permission.OUTPUT,
    "segment_extent": Permission.OUTPUT,
    "unsealed": Permission.OUTPUT,
    "audit": Permission.AUDIT,
    "rotate_key": Permission.READ,
    "watch": Permission.READ,  # it changes only what its user is told
}
# The declaration of routes of rota's own clients, which call `check_version` and answer with `stamped`.
OWN: dict[str, Any] = {"takes": ("Rota-Version",), "gives": ("Rota-Version", "Rota-Time")}
_BY_CALLER = {OPERATOR: Permission.OPERATE, ADMIN: Permission.ADMINISTER}


def permission_of(verb: Verb) -> Permission:
    plain = Permission.READ if verb.access is READ else Permission.ORDER
    return PERMISSIONS.get(verb.name) or _BY_CALLER.get(verb.by, plain)


def check_version(request: Request[Any, Any]) -> None:
    theirs = request.header(HEADER)
    if theirs is not None and not understand(OURS, theirs):
        error = WrongVersion(theirs[:50], OURS, "this address")
        raise Refusal(426, "wrong_version", str(error), stamped(request), client=error.client, server=error.server)


def stamped(request: Request[Any, Any]) -> dict[str, str]:
    """The headers by which a client knows our version, and the time of the store."""
    return {HEADER: OURS, TIME: str(request.desk.store.now())}


def call_route(call: Call, carry: Carry) -> Route:
    """The route of a verb. `carry` gets the request and the arguments by name."""

    async def handle(request: Request[Any, Any]) -> Answer[Any]:
        check_version(request)
        answer = await carry(request, call.unpacked(request.body))
        return Answer(call.packed(answer), headers=stamped(request))

    handle.__name__ = f"call_{call.name}"
    keyed = call.verb.access is WRITE and call.name != ORDERS and not call.verb.repeatable
    return Route(
        method="POST", path=f"{CALLS}/{call.name}", permission=permission_of(call.verb), handler=handle,
        summary=f"The verb {call.name.replace('_', ' ')}, for rota's own clients", tag="calls",
        body=call.arguments, answer=call.answer.type, problems=(409, 412, 426, *(OF_REPEATS if keyed else ())),
        takes=_takes(call, keyed), gives=OWN["gives"], keyed=keyed,
    )  # fmt: skip


def _takes(call: Call, keyed: bool) -> tuple[str, ...]:
    again = ("Rota-Repeat",) if call.name == ORDERS else (IDEMPOTENCY_KEY,) if keyed else ()
    return (*OWN["takes"], *again)


def _carry(call: Call, check: Check, steps: Steps | None) -> Carry:
    async def carry(request: Request[Any, Any], given: dict[str, Any]) -> Any:
        desk, who = request.desk, request.principal
        check(call.name, given, Sender(request.grant, desk.settings))
        if call.name == ORDERS:
            repeat = request.header(REPEAT) is not None
            return await repeated_orders.submit(desk.store, who, given["orders"], repeat)
        if call.name == "advance" and steps is not None:
            return await steps(request.schedules, given["steps"])
        if call.name == "replay":
            await check_again(desk.store, request.grant, given["ids"])
        return await _tried(call, getattr(request.store, call.name)(who, **given))

    return carry


async def _tried(call: Call, trying: Awaitable[Any]) -> Any:
    try:
        return await trying
    except StoreError as error:
        if error.whole or error.passing:
            raise
        # The store takes everything that its own clients send, so the arguments are at fault.
        raise InvalidInput(f"arguments of {call.name}", "values", "some that the store takes") from error


def routes(check: Check = check, steps: Steps | None = SchedulesClient.carry_out) -> list[Route]:
    """`check` and `steps`: for tests of the transport alone."""
    return [call_route(call, _carry(call, check, steps)) for call in calls().values() if call.verb.by is not NODE]

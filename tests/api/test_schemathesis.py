"""The API as its own document describes it: values made from the document, as each role. No answer is a 500, and each
is one that the document tells."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from rota.model.access import Role
from tests.api.caller import secret
from tests.api.serving import serving
from tests.contracts.world import World

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = {Role.ADMIN: 8}  # for each route; others are refused by most of them
FEW = 2


def call_all(url: str, key: str, examples: int) -> list[str]:
    """Calls every route with values that fit and with values that don't; returns what was wrong."""
    warnings.simplefilter("ignore")
    schema = schemathesis.openapi.from_url(f"{url}/api/v1/openapi.json")
    schema.config.generation.update(modes=list(schemathesis.GenerationMode))
    found: list[str] = []
    for one in schema.get_all_operations():
        assert isinstance(one, Ok), one
        operation = one.ok()

        @hypothesis.settings(
            max_examples=examples, deadline=None, database=None, derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck),
        )  # fmt: skip
        @hypothesis.given(case=operation.as_strategy())
        def call(case: Any) -> None:
            case.call_and_validate(checks=CHECKS, headers={"authorization": f"Bearer {key}"}, timeout=20)

        try:
            call()
        except (Exception, FailureGroup) as error:
            found.append(f"{operation.label}: {error}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("role", list(Role))
async def test_answers_are_those_of_the_document(world: World, role: Role) -> None:
    async with serving(world) as served:
        found = await asyncio.to_thread(call_all, served.server.url, secret(role), EXAMPLES.get(role, FEW))
        assert not found, "\n\n".join(found)

"""Single attempts at HTTP calls, without a node around them."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Sequence
from typing import Any

from rota import config
from rota.clock import SystemClock
from rota.dialing import Address
from rota.logs.shipper import Sink
from rota.model.job import Claimed, Ref, Spec
from rota.model.outcome import Failed, Outcome, Succeeded
from rota.work.attempt import Attempt
from rota.work.executors.http import HttpExecutor
from tests.work.books import shut_book

LONG = 20.0
JOB = "0193-job"


def attempt_at(spec: str, timeout: int | None = None) -> Attempt:
    claimed = Claimed(
        job_id=JOB, fence=7, owner="local", queue="default", kind="http", task="t", priority=5, rank=0, number=3,
        failures=0, started_at=0, spec=spec, args="{}", retry="{}", timeout=timeout,
    )  # fmt: skip
    return Attempt(claimed, Sink(Ref(JOB, 7), 1 << 24, SystemClock().now, lambda _: None), shut_book(), SystemClock())


def executor(resolve: Any = None, **settings: Any) -> HttpExecutor:
    given = {"http_allow": "127.0.0.1", **settings}
    return HttpExecutor.of(config.load(given, environment={}), resolve)


async def perform(attempt: Attempt, made: HttpExecutor | None = None) -> Outcome:
    async with asyncio.timeout(LONG):
        return await (made or executor()).execute(attempt)


async def call(method: str, url: str, made: HttpExecutor | None = None, **words: Any) -> Outcome:
    return await perform(attempt_at(Spec.http(method, url, **words).body), made)


async def result(method: str, url: str, made: HttpExecutor | None = None, **words: Any) -> Any:
    outcome = await call(method, url, made, **words)
    assert isinstance(outcome, Succeeded), outcome
    return json.loads(outcome.result)


async def failure(method: str, url: str, made: HttpExecutor | None = None, **words: Any) -> Failed:
    outcome = await call(method, url, made, **words)
    assert isinstance(outcome, Failed), outcome
    return outcome


def output(attempt: Attempt, stream: str = "stdout") -> bytes:
    return b"".join(chunk.body for chunk in attempt.sink.take_first(1 << 30) if chunk.stream == stream)


def resolving(*answers: Sequence[str]) -> Any:
    """A resolver that answers differently each time, as the master of a name can make it."""
    left = list(answers)

    async def resolve(host: str, port: int) -> list[Address]:
        found = left.pop(0) if len(left) > 1 else left[0]
        return [(socket.AF_INET6 if ":" in one else socket.AF_INET, (one, port)) for one in found]

    return resolve

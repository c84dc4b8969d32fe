"""A store with a few jobs, and the command line on it, in this process."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Awaitable, Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from rota.app_core import AppCore
from rota.cli.main import main
from rota.clock import Chance
from rota.model.job import Claimed, Kind, NewJob, Spec
from rota.model.lifecycle import JobEvent
from rota.model.node import NewNode
from rota.model.outcome import Ending, Problem, Settlement
from rota.model.principal import LOCAL, SYSTEM, with_address
from rota.model.requirements import Requirements
from rota.model.times import HOUR, SECOND
from rota.store.base import Store
from tests.cli.program import environment

TASKS = ("mail.send", "mail.send", "report", "report", "sweep")
FORMULA = '=HYPERLINK("http://evil")'


class Said(NamedTuple):
    code: int
    out: str
    err: str


class Place:
    """The command line in a folder, with an environment that names its store."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.folder, self.env = folder, environment(**env)
        self.ids: list[str] = []  # of the jobs, in their order

    def __call__(self, *words: str) -> Said:
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True) for _ in range(2))
        with (
            redirect_stdout(out), redirect_stderr(err), chdir(self.folder), patch.dict(os.environ, self.env, clear=True)
        ):  # fmt: skip
            try:
                code = main(words)
            except SystemExit as end:
                code = int(str(end.code))
        return Said(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))

    def ok(self, *words: str) -> str:
        said = self(*words)
        assert said.code == 0, said.err
        return said.out

    def refused(self, *words: str, code: int = 2) -> str:
        """The one line that is said."""
        said = self(*words)
        assert (said.code, said.out, said.err.count("\n")) == (code, "", 1), said
        return said.err

    def found(self, *words: str) -> list[int]:
        """The jobs that a list shows, by their numbers."""
        return [self.ids.index(job["id"]) for job in json.loads(self.ok("job", "list", "--json", *words))]


async def arrange(store: Store, count: int = len(TASKS)) -> list[str]:
    """Jobs of TASKS: a mail that failed, one that succeeded, two reports that wait, and a sweep of an hour from now.
    One more is of another user."""
    chance = Chance(7)
    await store.register(SYSTEM, NewNode("n", "i", ("worker",), {"mails": 9}, "0", 600 * SECOND), [])
    jobs = [_order(chance.job_id(store.now() + place * 1_000), place) for place in range(count)]
    await store.submit(LOCAL, [jobs])
    await store.submit(with_address("bob"), [[NewJob(chance.job_id(store.now()), "secret", Spec.command(["true"]))]])
    first, second = await store.claim(SYSTEM, "i", {"mails": 9}, [Kind.COMMAND], {"mails": 9})
    await store.finish(SYSTEM, [_failed(first), Settlement(*_of(second), JobEvent.SUCCEED, Ending.SUCCEEDED)])
    return [job.id for job in jobs]


def _of(one: Claimed) -> tuple[str, int]:
    return one.job_id, one.fence


def _failed(one: Claimed) -> Settlement:
    problem = Problem("builtins.OSError", "connection refused")
    event = JobEvent.FAIL, Ending.FAILED
    return Settlement(*_of(one), *event, failures=1, exit_code=-9, error=problem, reason=FORMULA)


def _order(job_id: str, place: int) -> NewJob:
    task = TASKS[place % len(TASKS)]
    arguments = {"number": place - 2, "tags": ["a", "b"], "who": f'x, "{place}"'}
    return NewJob(
        job_id, task, Spec.command(["true"]), json.dumps(arguments),
        queue="mails" if task == "mail.send" else "default", delay=HOUR if task == "sweep" else 0,
        requirements=Requirements(labels=("nightly", "slow")[: place % 3]),
    )  # fmt: skip


async def with_store(url: str, deed: Callable[[Store], Awaitable[Any]]) -> Any:
    store = AppCore(url).make_store()
    await store.migrate()
    try:
        await store.open()
        return await deed(store)
    finally:
        await store.close()

"""`import rota`: the public names, loaded when they are used, and what the public objects say of themselves."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import rota
from rota import errors, signals, testing
from rota.tasks.direct import direct_context


def test_type_checkers_are_told_of_the_names_that_the_table_has() -> None:
    tree = ast.parse(Path(rota.__file__).read_text("utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    told: dict[str, list[str]] = {}
    for line in block.body:
        assert isinstance(line, ast.ImportFrom)
        for name in line.names:
            assert name.asname == name.name, "without `as`, a name is not exported"
            told.setdefault(line.module or "", []).append(name.name)
    assert told == rota._NAMES
    assert all(names == sorted(names) for names in told.values())


def test_every_name_is_there_and_shown() -> None:
    assert set(rota.__all__) <= set(dir(rota))
    assert not {"typing", "annotations", "_NAMES"} & set(dir(rota))
    for name in rota.__all__:
        assert getattr(getattr(rota, name), "__name__", name) == name
    with pytest.raises(AttributeError, match="module 'rota' has no attribute 'Jb'"):
        rota.Jb  # noqa: B018


def test_every_error_is_a_name_of_rota() -> None:
    known = [*vars(errors).items(), *vars(signals).items()]
    own = {name for name, one in known if isinstance(one, type) and issubclass(one, Exception) and name[0] != "_"}
    assert own <= set(rota.__all__)


def test_nothing_is_loaded_before_it_is_used() -> None:
    code = "import sys, rota; dir(rota); print([name for name in sys.modules if name.startswith('rota.')])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout == "[]\n"


async def test_things_say_what_they_are() -> None:
    app = rota.App("postgresql://me:s3cret@localhost/shop", name="shop")

    @app.task(name="mail.welcome")
    def welcome(ctx: rota.Context, user_id: int, text: str = "") -> None: ...

    assert repr(app) == "<App 'shop' on postgresql://me:***@localhost/shop, 1 tasks>"
    assert repr(welcome) == "<Task 'mail.welcome' (user_id, text)>"
    assert repr(welcome._handle("17")) == "Job('17', task='mail.welcome')"
    assert repr(rota.Job(app, "17")) == "Job('17')"
    assert repr(rota.Schedule(app, "nightly")) == "Schedule('nightly')"
    assert repr(rota.Workflow(app, "4")) == "Workflow('4')"
    assert repr(direct_context("t")) == "<Context of job '', task 't', attempt 1>"


class Broken(Exception):
    pass


async def test_a_failure_says_what_failed_and_where() -> None:
    app = rota.App()

    @app.task(retry=0)
    async def fails() -> None:
        raise Broken("no use")

    @app.task
    async def waits() -> None: ...

    async with testing.harness(app) as stage:
        job, other = await fails.submit(), await waits.options(delay="1h").submit()
        await stage.run_due()
        await other.cancel("not needed")
        with pytest.raises(rota.JobFailed) as failed:
            await job.result()
        with pytest.raises(rota.JobFailed) as cancelled:
            await other.result()
    line = fails.function.__code__.co_firstlineno + 2
    error = failed.value
    assert (error.state, error.error, error.job_id) == ("failed", "no use", job.id)
    assert error.type is not None
    assert error.type.endswith("test_names.Broken")
    assert error.where == f"{__file__}, line {line}, in fails"
    assert str(error) == f"job {job.id} failed: {error.type}: no use ({error.where})"
    assert error.trace is not None
    assert str(cancelled.value) == f"job {other.id} cancelled: not needed"
    assert (cancelled.value.type, cancelled.value.where) == (None, None)

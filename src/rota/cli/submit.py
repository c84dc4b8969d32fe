"""`rota submit`: orders a function, a command or an HTTP call."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from rota import orders
from rota.app_core import AppCore
from rota.cli.calls import call_of, content_of
from rota.cli.session import check_exists, make_app, store_exists, utf8
from rota.cli.show import complain, document, plain
from rota.cli.waiting import hinting
from rota.errors import InvalidInput
from rota.handles.job import Job
from rota.model.graph import Need, Path, need
from rota.model.job import JobInfo, Spec, variable
from rota.model.limits import Key, concurrency, rate
from rota.model.option_table import CALLS, COMMANDS, JOBS, NAME, flags
from rota.model.options import Options, read_options, with_results
from rota.model.resources import READERS, Resources
from rota.model.retry import Retry
from rota.model.task import TaskInfo
from rota.tasks.encoding import JobReference
from rota.tasks.results import Fills, argument_names, split
from rota.views.jobs import JobView
from rota.wire_orders.offered import NONE_YET, OfferedTasks

FOR_COMMANDS, FOR_CALLS = flags((NAME, *COMMANDS)), flags(CALLS)
LONGEST_NUMBER = 20
_EXPECTED_JSON = """a JSON object such as '{"name": "you"}'"""


async def submit_(args: argparse.Namespace) -> int:
    check_form(args)
    async with make_app(args) as app:
        job = await place_order(app, args, *await work_of(app, args))
        if not args.json:
            print(job.id, flush=True)
        if args.wait:
            with hinting(await app.client(), job.id):
                info = await job.wait()
        else:
            info = await job.info()
        if args.json:
            document(JobView.of(info))
        elif args.wait and info.result is not None:
            plain(info.result)
        return verdict(info) if args.wait else 0


def check_form(args: argparse.Namespace) -> None:
    """Refuses options of other kinds: a job is a task, a command or a call."""
    given = [form for form in ("task", "http", "command") if getattr(args, form) is not None]
    if not given:
        args.parser.error("give a TASK, --http METHOD URL, or a command after `--`")
    if len(given) > 1:
        shown = {"task": repr(args.task), "http": "--http", "command": repr(" ".join(args.command or []))}
        several = " and ".join(shown[form] for form in given)
        args.parser.error(f"give a TASK, --http METHOD URL, or a command after `--`, not both ({several})")
    fitting = {"task": (), "http": ("name", *FOR_CALLS), "command": FOR_COMMANDS}[given[0]]
    what = {"task": f"the task {args.task!r}", "http": "an HTTP call", "command": "a command"}[given[0]]
    for name in (*FOR_COMMANDS, *FOR_CALLS):
        if name not in fitting and getattr(args, name) is not None:
            kinds = "commands" if name in FOR_COMMANDS else "HTTP calls"
            args.parser.error(f"--{name.replace('_', '-')} is for {kinds}, not for {what}")


def verdict(info: JobInfo) -> int:
    if info.state == "succeeded":
        return 0
    complain(f"job {info.id} {info.state}" + (f": {info.reason}" if info.reason else ""))
    return 1


async def work_of(
    app: AppCore, args: argparse.Namespace, sample: Callable[[dict[str, Any]], Any] = dict
) -> tuple[Spec, str, str, Options]:
    """The given command, call or function: its spec, task, arguments, and default options. `sample`: makes the
    arguments that the function must accept from the stored ones."""
    if args.command is not None:
        return *app.command(args.command, **about_command(args)), "{}", Options()
    if args.http is not None:
        call = call_of(app, args)
        return call.spec, call.task, "{}", Options()
    info = (await known_tasks(app, args)).get(args.task)
    arguments = read_arguments(args.json_arguments)
    plain, fills = split(_with_results(args, arguments), "arguments")
    if args.app:  # the app's code is here: check types too
        given = _with_results(args, sample(arguments))
        app.catalogue.get(info.name).encode_order((), given, app.settings.max_args)
    return Spec.function(info.name), info.name, *orders.named(app.settings.max_args, info, plain, argument_names(fills))


def _with_results(args: argparse.Namespace, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with a reference for each result, by the id that was given."""
    whole = dict(arguments)
    for text in getattr(args, "results", None) or []:
        name, equals, part = utf8(text, "--result").partition("=")
        if not equals or not name or not part:
            raise InvalidInput("--result", text, "ARGUMENT=ID, as in rows=3ad5d1")
        if name in whole:
            raise InvalidInput("--result", text, f"an argument that is not given yet; {name} is")
        whole[name] = JobReference(part)
    return whole


async def place_order(
    app: AppCore, args: argparse.Namespace, spec: Spec, task: str, body: str, defaults: Options
) -> Job[Any]:
    given = order_options(args, defaults.retry) | {"after": await _parents(app, args)}
    chosen = read_options(defaults, given)
    if args.results is not None:
        if getattr(args, "task", None) is None:
            raise InvalidInput("--result", args.results[0], "it with a TASK: only functions get results")
        chosen = with_results(chosen, await _results(app, args))
    return (await app.submit_orders(spec, task, [body], chosen))[0]


async def _results(app: AppCore, args: argparse.Namespace) -> Fills:
    """The places of results, with shortened ids resolved."""
    _, fills = split(_with_results(args, {}), "arguments")
    check_exists(app)  # a new store would have no jobs
    client = await app.client()
    found: dict[str, tuple[Path, ...]] = {}
    for part, paths in fills.items():
        job = await client.resolve(part)
        found[job] = (*found.get(job, ()), *paths)
    return found


def about_command(args: argparse.Namespace) -> dict[str, Any]:
    """The options of a command."""
    return {
        "cwd": folder(args.cwd),
        "env": _variables(args.env or []),
        "fatal_exit_codes": _codes(args.fatal_exit_codes),
        "name": args.name,
        "stdin": None if args.stdin is None else _input(args.stdin),
        "resources": _resources(args),
        "user": args.user,
        "group": args.group,
        "inherit": None if args.env_from is None else [variable(name, "--env-from") for name in args.env_from],
    }


def _resources(args: argparse.Namespace) -> Resources:
    """Bounds are read here, so that complaints name the flag."""
    given = {name: getattr(args, name) for name in READERS if getattr(args, name) is not None}
    return Resources(**{name: READERS[name](value, f"--{name.replace('_', '-')}") for name, value in given.items()})


def _input(given: str) -> str:
    body = content_of(given, "--stdin")
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise InvalidInput(
            "--stdin", _shown(body), "text in UTF-8; for other data give it the name of a file"
        ) from None


def folder(given: str | None, what: str = "--cwd") -> str:
    """An absolute folder. A relative one is relative to this process, not to the node."""
    if given == "":
        raise InvalidInput(what, given, "a folder")
    try:
        return os.path.abspath(given or ".")  # noqa: PTH100 - keeps symbolic links as the user named them
    except FileNotFoundError:
        raise InvalidInput(what, given or ".", "a folder; the current one was removed") from None


def _variables(given: Sequence[str]) -> dict[str, str]:
    for text in given:
        if text.find("=") < 1:
            raise InvalidInput("--env", text, "NAME=VALUE")
    return {name: value for name, _, value in (text.partition("=") for text in given)}


def _codes(given: str | None) -> list[int]:
    try:
        return [int(part) for part in given.split(",")] if given is not None else []
    except ValueError:
        raise InvalidInput("--fatal-exit-codes", given, "exit codes such as 3,4") from None


async def _parents(app: AppCore, args: argparse.Namespace) -> list[tuple[str, Need]] | None:
    """The parents, with shortened ids resolved."""
    if args.after is None:
        if args.on is not None:
            args.parser.error("--on says what --after needs; give --after too")
        return None
    otherwise = Need.SUCCESS if args.on is None else need(args.on)
    wanted = [_edge(text, otherwise) for text in args.after]
    check_exists(app)  # a new store would have no jobs
    client = await app.client()
    return [(await client.resolve(part), needed) for part, needed in wanted]


def _edge(text: str, otherwise: Need) -> tuple[str, Need]:
    part, colon, needed = utf8(text, "--after").partition(":")
    if not colon:
        return part, otherwise
    if needed not in list(Need):
        raise InvalidInput("--after", text, f"an id, or one with a need, as in ID:finish ({', '.join(Need)})")
    return part, Need(needed)


def order_options(args: argparse.Namespace, retry: Retry) -> dict[str, Any]:
    """The options of the job as `read_options` takes them, without its parents. `retry`: the defaults of the retry
    options."""
    changes = {name: getattr(args, name) for name in ("retries", "backoff") if getattr(args, name) is not None}
    given = {one.name: getattr(args, one.name) for one in JOBS if one.metavar and args.place in one.places}
    apart = ("retries", "backoff", "after", "on", "results")
    rest = {name: value for name, value in given.items() if name not in apart}
    return rest | {"retry": Retry(**(retry.parts() | changes)), "limits": _limits(args)}


def _limits(args: argparse.Namespace) -> list[Key] | None:
    """`db=5`, `api=60/1m`, or a key alone, whose bounds are set at run time."""
    flag = next(one for one in JOBS if one.name == "limits").flag_at(args.place)
    return None if args.limits is None else [_limit(text, flag) for text in args.limits]


def _limit(text: str, option: str) -> Key:
    name, equals, bound = utf8(text, option).rpartition("=")
    if not equals:
        name, bound = text, ""
    try:
        if not name or (equals and not bound):
            raise InvalidInput("key", name, "")
        if bound.isdecimal() and len(bound) < LONGEST_NUMBER:
            return Key(name, concurrency(int(bound), f"limit of key {name!r}"))
        return Key(name, None, rate(bound) if bound else None)
    except InvalidInput:
        raise InvalidInput(option, text, "KEY=5 (at once), KEY=60/1m (starts), or KEY alone") from None


async def known_tasks(app: AppCore, args: argparse.Namespace) -> OfferedTasks:
    if args.app:
        found, place = app.catalogue.infos(), f"{args.app} has"
    else:
        found, place = await _registered(app), "nodes have registered"
    return OfferedTasks({info.name: info for info in found}, place, f"{NONE_YET}, or give --app here")


async def _registered(app: AppCore) -> list[TaskInfo]:
    """The tasks that nodes have offered so far. Creates no store for this."""
    if not store_exists(app):
        return []
    return await (await app.client()).store.tasks(app.who)


def read_arguments(given: str | None) -> dict[str, Any]:
    """`{"a": 1}`, `@file`, or `-` for standard input."""
    if given is None:
        return {}
    text = content_of(given, "JSON")
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput("JSON", _shown(text), f"{_EXPECTED_JSON} ({error})") from None
    if not isinstance(value, dict):
        raise InvalidInput("JSON", value, _EXPECTED_JSON)
    return value


def _shown(text: bytes) -> str:
    return text[:200].decode("utf-8", "replace")

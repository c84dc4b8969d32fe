"""One row per option of a job, of a command and of an HTTP call.

The rows name the options, say where each may stand, how it is written on the command line and in orders as JSON, and
what it means. The lists of names, the arguments of argparse, the fields of such orders (`wire_orders/entries.py`) and
`docs/options.md` are made from them. The values are typed in `rota.model.options`, which also has a reader for each
name; tests hold both against this table. The module imports nothing of rota: `rota --help` needs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Literal, NamedTuple

Place = Literal["order", "schedule", "task"]
ORDERS: tuple[Place, ...] = ("order",)
NOT_TASKS: tuple[Place, ...] = ("schedule", "order")
EVERYWHERE: tuple[Place, ...] = ("task", "schedule", "order")

Span = str | float
FOR_CALLS = "for HTTP calls"


class Option(NamedTuple):
    name: str  # in Python and in JSON; with _ for - the name of its flag
    help: str
    metavar: str = ""  # none: it has no flag
    places: tuple[Place, ...] = EVERYWHERE
    default: str = ""  # as people write it
    json: Any = None  # its type in orders as JSON; None: it is not written there
    also: str = ""  # another name that it has there: that of its flag
    group: str = ""  # of its flag, in the help
    flag: str = ""  # unless it is --name
    schedule_flag: str = ""  # where `flag` means something else for schedules
    kind: Literal["text", "whole", "many"] = "text"  # "whole": a whole number; "many": the flag may be repeated
    either: str = ""  # of the flags with the same word one may be given
    part_of: str = ""  # the option that a caller of Python gives instead
    functions: bool = False  # only for jobs that are functions

    def flag_at(self, place: Place) -> str:
        given = self.schedule_flag if place == "schedule" else ""
        return given or self.flag or f"--{self.name.replace('_', '-')}"

    def help_with(self, default: str) -> str:
        return f"{self.help} ({default})" if default else self.help


_admission = partial(Option, group="who may run")
_command = partial(Option, places=NOT_TASKS, group="for commands")
_bound = partial(Option, places=NOT_TASKS, group="what a command may use")
_call = partial(Option, places=NOT_TASKS, group=FOR_CALLS)

JOBS = (
    Option("at", "not before then: ISO 8601 with offset; a past time means now", "TIME", ORDERS,
        json=str, either="when"),
    Option("delay", "not before this long from now: 90s, 5m, 2h, 1d", "DURATION", ORDERS,
        json=Span, also="in", flag="--in", either="when"),
    Option("priority", "0 (most urgent) to 9", "N", default="5", json=int, kind="whole"),
    Option("queue", "the queue", "QUEUE", default="default", json=str),
    Option("retry", "more attempts after a failed first one: a number, or `rota.Retry(...)`"),
    Option("retries", "more attempts after a failed first one", "N", json=int, kind="whole", part_of="retry"),
    Option("backoff", "waits between attempts: 30s, 2s..10m, linear 5s..1m", "TEXT",
        default="2s..10m", json=str, part_of="retry"),
    Option("timeout", "stop an attempt that runs longer", "DURATION", json=Span),
    Option("expires", "cancel it if it has not started this long after it is due", "DURATION", NOT_TASKS, json=Span),
    Option("key", "the same key and order again give the same job, not a second one", "KEY", ORDERS, json=str),
    Option("after", "not before this job has ended as needed; repeat for more", "ID[:NEED]", ORDERS,
        json=str | list[str] | dict[str, str], kind="many"),
    Option("on", "the need of each --after that names none: success, finish, failure, fine, trouble", "NEED", ORDERS,
        default="success", json=str),
    Option("results", "an argument that is the result of this job; repeat for more", "ARGUMENT=ID", ORDERS,
        json=dict[str, Any], flag="--result", kind="many", part_of="after", functions=True),
    Option("secrets",
        "an argument or environment variable to mask in output, errors and results; repeat for more",
        "NAME", json=str | list[str], flag="--secret", kind="many"),
    _admission("exclusive", "not while another job with this key runs; user:{user_id} names an argument", "KEY",
        json=str),
    _admission("rate", "start so many jobs of this task in any such window: 60/1m", "N/WINDOW", json=str),
    _admission("limits",
        "a key that it needs: db=5 (at once), api=60/1m (starts), db (as `rota limit set` says); repeat",
        "KEY[=BOUND]", json=dict[str, int | str | None], flag="--limit", schedule_flag="--job-limit", kind="many"),
    _admission("full", "if a key is full: wait, skip this job, replace older ones", "POLICY",
        default="wait", json=str),
    _admission("labels", "a label for gates to match; repeat for more", "LABEL",
        json=str | list[str], flag="--label", kind="many"),
    _admission("flow", "the flow whose feedback level it shares (its task); user:{user_id} names an argument", "NAME",
        json=str),
    _admission("alone", "run only while no other job of this scope runs: queue:mail, task:report.*, label:db, all",
        "SCOPE", json=str),
    _admission("drain", "how long it waits for running jobs of the scope to end", "DURATION", default="10m", json=Span),
    _admission("drained", "after that: yield and try again later, cancel the others", "WHAT",
        default="yield", json=str),
)  # fmt: skip

NAME = _command("name", "a name to find it by (that of the program; of a call: the host)", "NAME")

COMMANDS = (
    _command("cwd", "the folder to run it in (the current one)", "DIR", json=str),
    _command("env", "a variable for it; repeat for more", "NAME=VALUE", json=dict[str, str], kind="many"),
    _command("inherit", "variables of the node's that it may have, by their names", json=list[str]),
    _command("env_from",
        "a variable of the node's that it may have, if the node gives it (command_env); repeat for more", "NAME",
        kind="many", part_of="inherit"),
    _command("fatal_exit_codes", "exit codes after which it is not tried again", "N,...", json=list[int]),
    _command("stdin", "what it reads as its input; @FILE reads a file, - stdin", "TEXT", json=str),
    _bound("resources", "its bounds, by these names", json=dict[str, Any]),
    _bound("cpu", "CPU time of each of its processes: 30s", "DURATION", part_of="resources"),
    _bound("memory", "memory: 512MB, 2GiB", "SIZE", part_of="resources"),
    _bound("processes", "processes at a time", "N", part_of="resources"),
    _bound("files", "open files of each of its processes", "N", part_of="resources"),
    _bound("file_size", "the size of a file that it writes: 1GB", "SIZE", part_of="resources"),
    _bound("nice", "0 to 19: how readily it yields the processor (by its priority)", "N", part_of="resources"),
    _bound("user", "run it as this user (name or number), if the node is root's", "USER", json=str | int),
    _bound("group", "and with this group (the user's own)", "GROUP", json=str | int),
)  # fmt: skip

CALLS = (
    _call("headers", "headers, by their names", json=dict[str, str]),
    _call("header", "a header; repeat for more", "NAME:VALUE", kind="many", part_of="headers"),
    _call("header_env", "a header from a variable of this environment", "NAME=VARIABLE",
        kind="many", part_of="headers"),
    _call("header_file", "headers from a file, NAME: VALUE in each line; for secrets", "FILE", part_of="headers"),
    _call("json", "what to send, as JSON", json=Any),
    _call("json_body", "what to send, as JSON; @FILE reads a file, - stdin", "JSON", either="body", part_of="json"),
    _call("body", "what to send; @FILE reads a file, - stdin", "TEXT", json=str, either="body"),
    _call("expect", "statuses that are success: 200, 2xx, 2xx,404", "STATUS,...",
        default="2xx", json=int | str | list[int | str]),
    _call("redirects", "follow so many at most", "N", default="5", json=int, kind="whole"),
)  # fmt: skip


def names(options: Iterable[Option], place: Place = "order") -> tuple[str, ...]:
    """The names by which Python callers give the options that may stand in a place."""
    return tuple(one.name for one in options if place in one.places and not one.part_of)


def flags(options: Iterable[Option]) -> tuple[str, ...]:
    """The names by which argparse keeps the values of flags."""
    return tuple(one.name for one in options if one.metavar)


ORDER_NAMES, SCHEDULE_NAMES, TASK_NAMES = names(JOBS), names(JOBS, "schedule"), names(JOBS, "task")
COMMAND_NAMES, CALL_NAMES = names((NAME, *COMMANDS)), names((*CALLS, NAME))

"""What the parsers of verbs are made of. Imports nothing but argparse: this is all that `--help` needs."""

from __future__ import annotations

import argparse
import functools
from typing import Any, NoReturn

from rota.cli.show import complain

Verbs = Any  # argparse has no public name for what add_subparsers returns


class Parser(argparse.ArgumentParser):
    """A usage error is one line that says what was wrong, and where to read what is right."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        complain(f"{message.removeprefix('argument ')} (see `{self.prog} --help`)")
        self.exit(2)


@functools.cache
def everywhere(store: object = argparse.SUPPRESS, json: object = argparse.SUPPRESS) -> argparse.ArgumentParser:
    """What every verb takes, before or after its name. SUPPRESS: the verb's parser must not undo what came before."""
    parent = argparse.ArgumentParser(add_help=False)
    parent.add_argument("--store", metavar="URL", default=store, help="the store (ROTA_STORE; sqlite:///rota.db)")
    parent.add_argument("--json", action="store_true", default=json, help="print JSON instead of text")
    return parent


def add_verbs(parser: argparse.ArgumentParser) -> Verbs:
    return parser.add_subparsers(title="verbs", metavar="VERB", required=True)


def noun(verbs: Verbs, name: str, text: str) -> Verbs:
    return add_verbs(verbs.add_parser(name, help=text, description=_sentence(text), parents=[everywhere()]))


def verb(verbs: Verbs, name: str, module: str, text: str, usage: str | None = None) -> Parser:
    """`takes_command`: words after `--` are for it; `late`: its positional words that may stand after options."""
    parser: Parser = verbs.add_parser(name, help=text, description=_sentence(text), parents=[everywhere()])
    if usage:
        parser.usage = f"{parser.prog} {usage}"
    parser.set_defaults(module=module, function=f"{name}_", parser=parser, takes_command=False, late=())
    return parser


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def count(text: str) -> int:
    number = whole(text)
    if not 1 <= number <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 1000000")
    return number


def order(parser: Parser, retries: str) -> None:
    """How a job is to run."""
    parser.add_argument("--priority", metavar="N", type=whole, help="0 (most urgent) to 9 (5)")
    parser.add_argument("--queue", metavar="QUEUE", help="the queue (default)")
    parser.add_argument(
        "--retries", metavar="N", type=whole, help=f"more attempts after a failed first one ({retries})"
    )
    parser.add_argument(
        "--backoff", metavar="TEXT", help="waits between attempts: 30s, 2s..10m, linear 5s..1m (2s..10m)"
    )
    parser.add_argument("--timeout", metavar="DURATION", help="stop an attempt that runs longer")
    parser.add_argument(
        "--expires", metavar="DURATION", help="cancel it if it has not started this long after it is due"
    )


def admission(parser: Parser, limit: str = "--limit") -> None:
    """What is asked before a job may run. `limit`: the option for keys, where that word is taken."""
    group = parser.add_argument_group("who may run")
    group.add_argument(
        "--exclusive", metavar="KEY", help="not while another job with this key runs; user:{user_id} names an argument"
    )
    group.add_argument("--rate", metavar="N/WINDOW", help="start so many jobs of this task in any such window: 60/1m")
    group.add_argument(
        limit,
        metavar="KEY[=BOUND]",
        dest="limits",
        action="append",
        help="a key that it needs: db=5 (so many at once), api=60/1m (starts), db (as `rota limit set` says); repeat",
    )
    group.add_argument(
        "--full", metavar="POLICY", help="if a key is full: wait, skip this job, replace older ones (wait)"
    )
    group.add_argument(
        "--label", metavar="LABEL", dest="labels", action="append", help="a label for gates to match; repeat for more"
    )
    group.add_argument(
        "--alone", metavar="SCOPE", help="run while nothing else of it runs: queue:mail, task:report.*, label:db, all"
    )
    group.add_argument("--drain", metavar="DURATION", help="how long it waits for the others to end (10m)")
    group.add_argument(
        "--drained", metavar="WHAT", help="after that: yield and try again later, cancel the others (yield)"
    )
    parser.set_defaults(limit_option=limit)


def function(parser: Parser) -> None:
    """The function that a job is."""
    parser.add_argument("task", metavar="TASK", nargs="?", help="the name of a function that a node or --app offers")
    parser.add_argument(
        "json_arguments", metavar="JSON", nargs="?", help="its arguments as a JSON object; @FILE reads a file, - stdin"
    )
    parser.add_argument("--app", metavar="MODULE:APP", help="take TASK from this rota.App")
    parser.set_defaults(late=("task", "json_arguments"))


def command(parser: Parser) -> None:
    """The command that a job is."""
    group = parser.add_argument_group("for commands")
    group.add_argument("--cwd", metavar="DIR", help="the folder to run it in (the current one)")
    group.add_argument("--env", metavar="NAME=VALUE", action="append", help="a variable for it; repeat for more")
    group.add_argument(
        "--env-from",
        metavar="NAME",
        action="append",
        help="a variable of the node's that it may have, if the node gives it (command_env); repeat for more",
    )
    group.add_argument("--stdin", metavar="TEXT", help="what it reads as its input; @FILE reads a file, - stdin")
    group.add_argument("--name", metavar="NAME", help="a name to find it by (that of the program; of a call: the host)")
    group.add_argument("--fatal-exit-codes", metavar="N,...", help="exit codes after which it is not tried again")
    bounds = parser.add_argument_group("what a command may use")
    bounds.add_argument("--cpu", metavar="DURATION", help="CPU time of each of its processes: 30s")
    bounds.add_argument("--memory", metavar="SIZE", help="memory: 512MB, 2GiB")
    bounds.add_argument("--processes", metavar="N", help="processes at a time")
    bounds.add_argument("--files", metavar="N", help="open files of each of its processes")
    bounds.add_argument("--file-size", metavar="SIZE", help="the size of a file that it writes: 1GB")
    bounds.add_argument("--nice", metavar="N", help="0 to 19: how readily it yields the processor (by its priority)")
    bounds.add_argument("--user", metavar="USER", help="run it as this user (name or number), if the node is root's")
    bounds.add_argument("--group", metavar="GROUP", help="and with this group (the user's own)")
    parser.set_defaults(takes_command=True)


def http(parser: Parser) -> None:
    """The HTTP call that a job is."""
    group = parser.add_argument_group("for HTTP calls")
    group.add_argument(
        "--http", nargs=2, metavar=("METHOD", "URL"), help="make this call: --http POST https://example.com/hook"
    )
    group.add_argument("--header", metavar="NAME:VALUE", action="append", help="a header; repeat for more")
    group.add_argument(
        "--header-env", metavar="NAME=VARIABLE", action="append", help="a header from a variable of this environment"
    )
    group.add_argument(
        "--header-file", metavar="FILE", help="headers from a file, NAME: VALUE in each line; for secrets"
    )
    content = group.add_mutually_exclusive_group()
    content.add_argument("--body", metavar="TEXT", help="what to send; @FILE reads a file, - stdin")
    content.add_argument("--json-body", metavar="JSON", help="the same, as JSON")
    group.add_argument("--expect", metavar="STATUS,...", help="statuses that are success: 200, 2xx, 2xx,404 (2xx)")
    group.add_argument("--redirects", metavar="N", type=whole, help="follow so many at most (5)")

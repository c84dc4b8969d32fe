"""Every verb and option, as argparse knows them. Imports nothing but argparse: this is all that `--help` needs.

`docs/cli.md` is made from here; a test compares.
"""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from rota import __version__
from rota.cli.show import complain

Verbs = Any  # argparse has no public name for what add_subparsers returns
ABOUT = "A distributed job scheduler: `rota up` starts a node, `rota run -- CMD` runs a command on it."


class Parser(argparse.ArgumentParser):
    """A usage error is one line that says what was wrong, and where to read what is right."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        complain(f"{message.removeprefix('argument ')} (see `{self.prog} --help`)")
        self.exit(2)


def build() -> Parser:
    parser = Parser(prog="rota", description=ABOUT, parents=[_everywhere(store=None, json=False)])
    parser.add_argument("--version", action="version", version=f"rota {__version__}", help="print the version and exit")
    verbs = _verbs(parser)
    _up(verbs)
    _run(verbs)
    _submit(verbs)
    _job(_noun(verbs, "job", "look at jobs, and change their course"))
    _dead(_noun(verbs, "dead", "jobs that failed for good: look, run again, delete"))
    _node(_noun(verbs, "node", "the processes that run jobs"))
    _verb(verbs, "migrate", "store", "create the store, or bring its schema up to date")
    _verb(verbs, "doctor", "store", "look for trouble: store, schema, space, nodes, settings; exit 1 if there is any")
    return parser


def _everywhere(store: object = argparse.SUPPRESS, json: object = argparse.SUPPRESS) -> argparse.ArgumentParser:
    """What every verb takes, before or after its name. SUPPRESS: the verb's parser must not undo what came before."""
    parent = argparse.ArgumentParser(add_help=False)
    parent.add_argument("--store", metavar="URL", default=store, help="the store (ROTA_STORE; sqlite:///rota.db)")
    parent.add_argument("--json", action="store_true", default=json, help="print JSON instead of text")
    return parent


def _verbs(parser: argparse.ArgumentParser) -> Verbs:
    return parser.add_subparsers(title="verbs", metavar="VERB", required=True)


def _noun(verbs: Verbs, name: str, text: str) -> Verbs:
    return _verbs(verbs.add_parser(name, help=text, description=_sentence(text), parents=[_everywhere()]))


def _verb(verbs: Verbs, name: str, module: str, text: str, usage: str | None = None) -> Parser:
    parser: Parser = verbs.add_parser(name, help=text, description=_sentence(text), parents=[_everywhere()])
    if usage:
        parser.usage = f"{parser.prog} {usage}"
    parser.set_defaults(module=module, function=f"{name}_", parser=parser)
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


def _up(verbs: Verbs) -> None:
    up = _verb(verbs, "up", "up", "start a node: control and worker in one process, until SIGTERM or Ctrl-C")
    up.add_argument("--app", metavar="MODULE:APP", help="the rota.App with the functions to run; none: commands only")
    up.add_argument("--roles", metavar="ROLES", help="what the node does (control,worker)")
    slots = up.add_mutually_exclusive_group()
    slots.add_argument("--queues", metavar="QUEUE:N,...", help="queues to serve, with slots, such as default:8,mail:2")
    slots.add_argument("--slots", metavar="N", type=count, help="short for --queues default:N")
    up.add_argument("--node", metavar="ID", help="a name for this node; made up if not given")
    up.add_argument("--grace", metavar="DURATION", help="how long running jobs may go on after the first signal (30s)")
    noise = up.add_mutually_exclusive_group()
    noise.add_argument("--verbose", action="store_true", help="a line for every attempt")
    noise.add_argument("--quiet", action="store_true", help="warnings and errors only")


def _run(verbs: Verbs) -> None:
    text = "submit a command, follow its output, and exit with its exit code"
    run = _verb(verbs, "run", "run", text, usage="[options] -- CMD...")
    _when(run)
    _how(run, retries="0")
    _command(run)


def _submit(verbs: Verbs) -> None:
    text = "order a job and print its id"
    submit = _verb(verbs, "submit", "submit", text, usage="[options] (TASK [JSON] | -- CMD...)")
    submit.add_argument("task", metavar="TASK", nargs="?", help="the name of a function that a node or --app offers")
    submit.add_argument(
        "json_arguments", metavar="JSON", nargs="?", help="its arguments as a JSON object; @FILE reads a file, - stdin"
    )
    submit.add_argument("--app", metavar="MODULE:APP", help="take TASK from this rota.App")
    submit.add_argument("--wait", action="store_true", help="wait for its end; exit 1 unless it succeeds")
    _when(submit)
    _how(submit, retries="3, or what TASK says")
    _command(submit)


def _when(parser: Parser) -> None:
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--at", metavar="TIME", help="not before then: ISO 8601 with offset; a past time means now")
    when.add_argument("--in", metavar="DURATION", dest="delay", help="not before this long from now: 90s, 5m, 2h, 1d")


def _how(parser: Parser, retries: str) -> None:
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
    parser.add_argument("--key", metavar="KEY", help="the same key and order again give the same job, not a second one")


def _command(parser: Parser) -> None:
    group = parser.add_argument_group("for commands")
    group.add_argument("--cwd", metavar="DIR", help="the folder to run it in (the current one)")
    group.add_argument("--env", metavar="NAME=VALUE", action="append", help="a variable for it; repeat for more")
    group.add_argument("--name", metavar="NAME", help="a name to find it by (that of the program)")
    group.add_argument("--fatal-exit-codes", metavar="N,...", help="exit codes after which it is not tried again")


def _job(verbs: Verbs) -> None:
    listing = _verb(verbs, "list", "job", "list jobs, newest first")
    listing.add_argument("--state", metavar="STATE,...", help="only jobs in these states")
    _filters(listing)
    _id(_verb(verbs, "show", "job", "show all there is to see of a job"))
    logs = _verb(verbs, "logs", "logs", "print what the attempts of a job wrote")
    _id(logs)
    logs.add_argument("--follow", "-f", action="store_true", help="go on until the job has ended")
    logs.add_argument("--attempt", metavar="N", type=count, help="only this attempt")
    logs.add_argument("--timestamps", "-t", action="store_true", help="begin each line with its time and stream")
    _ids(_verb(verbs, "cancel", "job", "end waiting jobs, stop running ones"))
    _ids(_verb(verbs, "retry", "job", "run failed or cancelled jobs again, and waiting ones at once"))
    wait = _verb(
        verbs, "wait", "job", "wait until jobs have ended; exit 0 if all succeeded, 124 after --timeout, else 1"
    )
    _ids(wait)
    wait.add_argument("--timeout", metavar="DURATION", help="how long to wait at most")


def _dead(verbs: Verbs) -> None:
    _filters(_verb(verbs, "list", "dead", "list dead letters, latest first"), error=True)
    _id(_verb(verbs, "show", "dead", "show all there is to see of a dead letter"))
    usage = "(ID... | --all [filters]) [options]"
    _many(_verb(verbs, "replay", "dead", "run dead letters again, with a fresh budget of attempts", usage))
    purge = _verb(verbs, "purge", "dead", "delete dead letters with their history", usage)
    _many(purge)
    purge.add_argument("--older-than", metavar="DURATION", help="only those that ended longer ago")


def _node(verbs: Verbs) -> None:
    listing = _verb(verbs, "list", "node", "list nodes")
    listing.add_argument("--past", action="store_true", help="also those that left or died")


def _filters(parser: Parser, error: bool = False, limit: bool = True) -> None:
    parser.add_argument("--queue", metavar="QUEUE", help="only jobs of this queue")
    parser.add_argument("--task", metavar="GLOB", help="only tasks of this name; * and ? match anything")
    if error:
        parser.add_argument("--error", metavar="TEXT", help="only those whose last error contains this text")
    if limit:
        parser.add_argument("--limit", metavar="N", type=count, default=100, help="at most so many (100)")


def _many(parser: Parser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="*", help="an id, or a beginning of it that fits no other")
    parser.add_argument("--all", action="store_true", help="all dead letters that the filters leave")
    _filters(parser, error=True, limit=False)
    parser.add_argument("--dry-run", action="store_true", help="only say which; change nothing")
    parser.add_argument("--yes", "-y", action="store_true", help="don't ask before --all")


def _id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="an id, or a beginning of it that fits no other")


def _ids(parser: Parser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", help="an id, or a beginning of it that fits no other")

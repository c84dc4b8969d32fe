"""Every verb and option, as argparse knows them. Imports only argparse and the table of options.

`docs/cli.md` is made from here; a test compares.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from rota import __version__
from rota.cli.grammar import (
    Parser,
    Verbs,
    add_verbs,
    command,
    count,
    everywhere,
    function,
    http,
    noun,
    order,
    verb,
)
from rota.cli.parser_admissions import flow, gate, limit, lock, queue
from rota.cli.parser_jobs import dead, job
from rota.cli.parser_logs import logs
from rota.cli.parser_people import audit, key, user
from rota.cli.parser_schedules import calendar, schedule

ABOUT = "A distributed job scheduler: `rota up` starts a node, `rota run -- CMD` runs a command on it."


def build(words: Collection[str] | None = None) -> Parser:
    """Builds the parser. Given the words of a call, verbs that they don't name get no options and sub-verbs: building
    all of them takes longer than most verbs do."""
    parser = Parser(prog="rota", description=ABOUT, parents=[everywhere(store=None, json=False)])
    parser.add_argument("--version", action="version", version=f"rota {__version__}", help="print the version and exit")
    verbs = add_verbs(parser)
    run, submit = "submit a command, follow its output, and exit with its exit code", "order a job and print its id"
    usage = "[options] (TASK [JSON] | --http METHOD URL | -- CMD...)"
    up = "start a node: control, worker and HTTP API in one process, until SIGTERM or Ctrl-C"
    parts: list[tuple[str, Any, Callable[[Any], None]]] = [
        ("up", verb(verbs, "up", "up", up), _up),
        ("run", verb(verbs, "run", "run", run, "[options] -- CMD..."), _run),
        ("submit", verb(verbs, "submit", "submit", submit, usage), _submit),
    ]
    counted = "counts, rates and latencies of jobs by queue, and their course"
    parts.append(("stats", verb(verbs, "stats", "stats", counted), _stats))
    told = "print what happened to jobs, schedules, gates, limits, queues and nodes"
    parts.append(("events", verb(verbs, "events", "events", told), _events))
    for name, text, fill in NOUNS:
        parts.append((name, noun(verbs, name, text), fill))
    parts.append(("audit", verb(verbs, "audit", "audit", "list who changed what, latest first"), audit))
    parts.append(("login", verb(verbs, "login", "login", "use a server: keep its address and an access key"), _login))
    verb(verbs, "logout", "login", "forget the server and the key of `rota login`")
    verb(verbs, "migrate", "store", "create the store, or bring its schema up to date")
    doctor = "look for trouble: store, schema, space, nodes, settings; exit 1 if there is any"
    parts.append(("doctor", verb(verbs, "doctor", "store", doctor), _doctor))
    shells = verb(verbs, "completion", "completion", "print a script that completes rota's verbs, options and names")
    shells.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")
    for name, part, fill in parts:
        if words is None or name in words:
            fill(part)
    return parser


def _up(up: Parser) -> None:
    up.add_argument(
        "--app",
        metavar="MODULE[:APP]",
        help="the rota.App with the functions to run; none: commands and HTTP calls only",
    )
    up.add_argument("--roles", metavar="ROLES", help="what the node does (control,worker,api)")
    slots = up.add_mutually_exclusive_group()
    slots.add_argument("--queues", metavar="QUEUE:N,...", help="queues to serve, with slots, such as default:8,mail:2")
    slots.add_argument("--slots", metavar="N", type=count, help="short for --queues default:N")
    up.add_argument("--node", metavar="ID", help="a name for this node; made up if not given")
    up.add_argument("--grace", metavar="DURATION", help="how long running jobs may go on after the first signal (30s)")
    text = "for development: start again when a file of the app changes; running jobs get 2 s unless --grace says"
    up.add_argument("--reload", action="store_true", help=text)
    up.add_argument("--echo", action="store_true", help="also write the output of jobs to stdout, line by line")
    _api(up)
    noise = up.add_mutually_exclusive_group()
    noise.add_argument("--verbose", action="store_true", help="a line for every attempt, and traces of errors")
    noise.add_argument("--quiet", action="store_true", help="warnings and errors only")


def _api(up: Parser) -> None:
    up.add_argument("--host", metavar="ADDRESS", help="where the HTTP API listens (127.0.0.1)")
    text = "the port of the HTTP API (8787; if that is taken, the node goes on without); 0 picks a free one"
    up.add_argument("--port", metavar="PORT", help=text)
    up.add_argument("--hosts", metavar="NAME,...", help="host names that the HTTP API is called by, besides localhost")
    up.add_argument("--tls-cert", metavar="FILE", help="the certificate of the HTTP API; read again when it changes")
    up.add_argument("--tls-key", metavar="FILE", help="the private key of the certificate")
    text = "the addresses of a proxy that does TLS for the HTTP API, such as 10.0.0.5 or private"
    up.add_argument("--behind-proxy", metavar="ADDRESS,...", help=text)


def _login(login: Parser) -> None:
    login.add_argument("url", metavar="URL", help="the address of the server, such as https://rota.example.com:8787")
    login.add_argument("--key-stdin", action="store_true", help="read the access key from standard input")
    login.add_argument(
        "--insecure", action="store_true", help="send the key without TLS beyond this machine, where others can read it"
    )
    login.add_argument("--ca", metavar="FILE", help="certificates that the server's must be signed by, in PEM form")


def _doctor(doctor: Parser) -> None:
    text = "look at the server instead: connection, certificate, key, clock, version"
    doctor.add_argument("--server", action="store_true", help=text)


def _run(run: Parser) -> None:
    order(run, retries="0", functions=False)
    command(run)


def _submit(submit: Parser) -> None:
    function(submit)
    text = "wait for its end and print its result, texts as they are, else JSON; exit 1 unless it succeeds"
    submit.add_argument("--wait", action="store_true", help=text)
    order(submit, retries="3, or what TASK says")
    command(submit)
    http(submit)


def _stats(stats: Parser) -> None:
    stats.add_argument("--since", metavar="DURATION", default="1h", help="how far to look back (1h)")
    stats.add_argument("--step", metavar="DURATION", help="the length of a bucket, whole minutes; fits by itself")
    stats.add_argument("--queue", metavar="QUEUE", help="only jobs of this queue")
    stats.add_argument("--task", metavar="TASK", help="only jobs of this task")
    stats.add_argument("--mine", action="store_true", help="only your own jobs, if you may see everyone's")


def _events(events: Parser) -> None:
    events.add_argument("--follow", "-f", action="store_true", help="begin now, and go on until interrupted")
    text = "only events of this kind, such as job.failed; * and ? match anything; may be repeated"
    events.add_argument("--kind", metavar="KIND", action="append", help=text)
    events.add_argument("--job", metavar="ID", help="only events of this job")
    events.add_argument("--workflow", metavar="ID", help="only events of jobs of this workflow")
    events.add_argument("--task", metavar="GLOB", help="only events of jobs of this task")
    events.add_argument("--queue", metavar="QUEUE", help="only events of this queue and its jobs")
    events.add_argument("--schedule", metavar="NAME", help="only events of this schedule and its jobs")
    events.add_argument("--after", metavar="ID", help="only events behind this one")


def _workflow(verbs: Verbs) -> None:
    listing = verb(verbs, "list", "workflow", "list workflows, newest first")
    listing.add_argument("--name", metavar="NAME", help="only those of this name")
    listing.add_argument("--limit", metavar="N", type=count, default=50, help="at most so many (50)")
    show = verb(verbs, "show", "workflow", "show a workflow and its jobs as a tree")
    _flow(show)
    form = show.add_mutually_exclusive_group()
    form.add_argument("--graphviz", action="store_true", help="print the language of Graphviz, as for `dot -Tsvg`")
    form.add_argument("--mermaid", action="store_true", help="print the language of Mermaid, as for Markdown")
    cancel = verb(verbs, "cancel", "workflow", "end all jobs of a workflow that have not ended")
    _flow(cancel)
    cancel.add_argument("--reason", metavar="TEXT", help="why, for whoever looks at them (its workflow was cancelled)")
    text = "run again what failed or was cancelled, and what was skipped because of it"
    retry = verb(verbs, "retry", "workflow", text)
    _flow(retry)
    _from(retry)
    replay = verb(verbs, "replay", "workflow", "run all of a workflow again, whatever became of it")
    _flow(replay)
    _from(replay)
    replay.add_argument("--yes", "-y", action="store_true", help="don't ask")
    submit = verb(verbs, "submit", "workflow_file", "order a workflow that is described as JSON, and print its id")
    submit.add_argument("file", metavar="FILE", help="the description (docs/workflows.md); - reads standard input")
    submit.add_argument("--app", metavar="MODULE[:APP]", help="take tasks from this rota.App")
    text = "wait until all jobs of a workflow have ended; exit 0 if all succeeded, 124 after --timeout, else 1"
    wait = verb(verbs, "wait", "workflow", text)
    _flow(wait)
    wait.add_argument("--timeout", metavar="DURATION", help="how long to wait at most")


def _flow(parser: Parser) -> None:
    parser.add_argument(
        "workflow",
        metavar="ID",
        help="an id, or a beginning or end of it that fits no other; or a name, for its latest",
    )


def _from(parser: Parser) -> None:
    parser.add_argument(
        "--from", metavar="JOB", dest="from_", help="only this job (its id or task) and what waits for it"
    )


def _task(verbs: Verbs) -> None:
    verb(verbs, "list", "task", "list the tasks that nodes have offered or apps have made known")
    show = verb(verbs, "show", "task", "show parameters, options, nodes and jobs of a task")
    show.add_argument("name", metavar="NAME", help="the name of the task")


def _node(verbs: Verbs) -> None:
    listing = verb(verbs, "list", "node", "list nodes")
    listing.add_argument("--past", action="store_true", help="also those that left or died")
    check = verb(verbs, "check", "node", "for probes: exit 0 if the node renews its lease, else 1")
    check.add_argument("id", metavar="ID", nargs="?", help="the node (the setting `node`)")


def _hot(verbs: Verbs) -> None:
    verb(verbs, "status", "hot", "list the members of the hot tier; exit 1 if one is away")
    verb(verbs, "refill", "hot", "add all jobs that are due soon once more; nothing waits for it")
    verb(verbs, "check", "hot", "compare the hot tier with the store; exit 1 if a job is missing there")


def _store(verbs: Verbs) -> None:
    text = "copy all jobs, schedules and settings of one store to another that is empty, and compare them"
    copy = verb(verbs, "copy", "store_copy", text)
    copy.add_argument("source", metavar="SOURCE", help="the store to copy: sqlite:///FILE or postgresql://...")
    copy.add_argument("target", metavar="TARGET", help="the empty store, or the unfinished copy of SOURCE")
    copy.add_argument("--dry-run", action="store_true", help="only say how many rows; change nothing")


NOUNS: tuple[tuple[str, str, Callable[[Verbs], None]], ...] = (
    ("job", "look at jobs, and change their course", job),
    ("logs", "the output of many jobs", logs),
    ("workflow", "jobs that were ordered together, and wait for each other", _workflow),
    ("schedule", "rules that make jobs at their times", schedule),
    ("calendar", "named sets of dates that schedules leave out, or keep to", calendar),
    ("gate", "rules that hold or drop matching jobs, until they are opened", gate),
    ("limit", "keys that jobs need: how many at once, how many starts", limit),
    ("lock", "what one process of the cluster holds at a time", lock),
    ("queue", "what waits and runs in queues; pausing them, how they rank", queue),
    ("flow", "whose turn it is: flows and their feedback levels", flow),
    ("dead", "jobs that failed for good: look, run again, delete", dead),
    ("task", "functions that nodes offer, and how they are ordered", _task),
    ("node", "the processes that run jobs", _node),
    ("user", "who may order by access keys, and how much", user),
    ("key", "access keys: made, rotated, revoked", key),
    ("store", "the database with all jobs", _store),
    ("hot", "the hot tier in front of the store: what it holds, and whether that is right", _hot),
)

"""The verbs of jobs and of dead letters."""

from __future__ import annotations

from typing import Any

from rota.cli.grammar import Parser, Verbs, count, verb

MANY = "(ID... | --all [QUERY...] [filters]) [options]"
MANY_PRIORITY = "(ID... | --all [QUERY...] [filters]) PRIORITY [options]"


def job(verbs: Verbs) -> None:
    listing = verb(verbs, "list", "listing", "list jobs that fit a query, newest first")
    _listing(listing)
    _job_filters(listing)
    show = verb(verbs, "show", "job", "show all there is to see of a job")
    _id(show)
    show.add_argument("--fresh", action="store_true", help="ask the store; a hot tier may lag 2 seconds behind")
    logs = verb(verbs, "logs", "logs", "print what the attempts of a job wrote")
    _id(logs)
    logs.add_argument("--follow", "-f", action="store_true", help="go on until the job has ended")
    logs.add_argument("--attempt", metavar="N", type=count, help="only this attempt")
    logs.add_argument("--stream", metavar="STREAM", help="only this stream: stdout, stderr, log")
    logs.add_argument("--timestamps", "-t", action="store_true", help="begin each line with its time and stream")
    cancel = verb(verbs, "cancel", "job", "end waiting jobs, stop running ones", MANY)
    _many(cancel, "jobs that have not ended")
    _job_filters(cancel)
    cancel.add_argument("--reason", metavar="TEXT", help="why, for whoever looks at them (cancelled by its user)")
    text = "run failed or cancelled jobs again, and waiting ones at once"
    retry = verb(verbs, "retry", "job", text, MANY)
    _many(retry, "jobs that can be retried")
    _job_filters(retry)
    urgency = verb(verbs, "priority", "job", "give waiting jobs another priority", MANY_PRIORITY)
    _many(urgency, "waiting jobs")
    _job_filters(urgency)
    urgency.add_argument("priority", metavar="PRIORITY", nargs="?", help="0 (most urgent) to 9")
    urgency.set_defaults(late=("priority",))
    _id(verb(verbs, "explain", "job", "say why a job is where it is: a sentence for each reason"))
    wait = verb(
        verbs, "wait", "job", "wait until jobs have ended; exit 0 if all succeeded, 124 after --timeout, else 1"
    )
    _ids(wait)
    wait.add_argument("--timeout", metavar="DURATION", help="how long to wait at most")


def dead(verbs: Verbs) -> None:
    listing = verb(verbs, "list", "dead", "list dead letters that fit a query, latest first")
    form = _listing(listing)
    form.add_argument("--groups", action="store_true", help="list groups of the same error, last seen first")
    _group(listing)
    _id(verb(verbs, "show", "dead", "show all there is to see of a dead letter"))
    replay = verb(verbs, "replay", "dead", "run dead letters again, with a fresh budget of attempts", MANY)
    _many(replay)
    _group(replay, "; implies --all")
    purge = verb(verbs, "purge", "dead", "delete dead letters with their history", MANY)
    _many(purge)
    _group(purge, "; implies --all")
    purge.add_argument("--older-than", metavar="DURATION", help="only those that ended longer ago")


def _group(parser: Parser, all_of: str = "") -> None:
    text = f"only those of this group of errors (rota dead list --groups){all_of}"
    parser.add_argument("--group", metavar="GROUP", help=text)


def _listing(parser: Parser) -> Any:
    """Returns the group of its forms, of which a call has one."""
    text = "conditions, as in docs/search.md; several words are joined: state:failed 'took>5m' 'connection refused'"
    parser.add_argument("query", metavar="QUERY", nargs="*", help=text)
    parser.set_defaults(rest="query", takes_query=True)
    _filters(parser)
    parser.add_argument("--sort", metavar="FIELD", help="in the order of this field; down with a -: -finished")
    parser.add_argument("--limit", metavar="N", type=count, help="at most so many (100)")
    parser.add_argument("--after", metavar="PLACE", help="go on behind this job, or where an earlier list has stopped")
    text = "show these fields of the query language, such as id,task,args.user_id"
    parser.add_argument("--columns", metavar="FIELD,...", help=text)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print CSV for spreadsheets")
    form.add_argument("--watch", action="store_true", help="keep the list live until Ctrl-C")
    form.add_argument("--count", action="store_true", help="only say how many; about, if they are too many to count")
    form.add_argument("--facets", action="store_true", help="only count them by state, queue, task, user, group")
    return form


def _filters(parser: Parser) -> None:
    parser.add_argument("--queue", metavar="QUEUE", help="only jobs of this queue")
    parser.add_argument("--task", metavar="GLOB", help="only tasks of this name; * and ? match anything")
    parser.add_argument("--error", metavar="TEXT", help="only those whose last error contains this text")


def _job_filters(parser: Parser) -> None:
    parser.add_argument("--state", metavar="STATE,...", help="only jobs in these states")
    parser.add_argument("--label", metavar="LABEL", help="only jobs with this label")
    parser.add_argument("--workflow", metavar="ID", help="only jobs of this workflow: its id or name")
    parser.add_argument("--schedule", metavar="NAME", help="only jobs that this schedule made")


def _many(parser: Parser, all_of: str = "dead letters") -> None:
    text = "an id, or a beginning or end of it that fits no other; with --all the words of a query"
    parser.add_argument("ids", metavar="ID", nargs="*", help=text)
    parser.set_defaults(rest="ids", takes_query=True, query=None)
    parser.add_argument("--all", action="store_true", help=f"all {all_of} that the query and the filters leave")
    _filters(parser)
    parser.add_argument("--dry-run", action="store_true", help="only say which; change nothing")
    parser.add_argument("--yes", "-y", action="store_true", help="don't ask before --all")


def _id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="an id, or a beginning or end of it that fits no other")


def _ids(parser: Parser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", help="an id, or a beginning or end of it that fits no other")

"""The verbs of the output of many jobs."""

from __future__ import annotations

from rota.cli.grammar import Parser, Verbs, count, verb, whole


def logs(verbs: Verbs) -> None:
    search = verb(verbs, "search", "logs_search", "find lines in the output of all jobs that fit a query, newest first")
    _lines(search)
    search.add_argument("--context", "-C", metavar="N", type=whole, help="also N lines on both sides of each")
    search.add_argument("--before-context", "-B", metavar="N", type=whole, help="also N lines before each")
    search.add_argument("--after-context", "-A", metavar="N", type=whole, help="also N lines behind each")
    search.add_argument("--limit", metavar="N", type=count, help="at most so many (100)")
    search.add_argument("--after", metavar="PLACE", help="go on where an earlier search has stopped")
    tail = verb(verbs, "tail", "logs_tail", "follow the output of all jobs that fit a query, until Ctrl-C")
    _lines(tail)
    tail.add_argument("--timestamps", "-t", action="store_true", help="begin each line with its whole time")


def _lines(parser: Parser) -> None:
    """A query for output."""
    text = "conditions, as in docs/search.md: 'level>=warning' refused; id:3ad5d1 is one job, 3ad5d1 a word"
    parser.add_argument("query", metavar="QUERY", nargs="*", help=text)
    parser.set_defaults(rest="query", takes_query=True, of_output=True)
    parser.add_argument("--stream", metavar="STREAM", help="only this stream: stdout, stderr, log")

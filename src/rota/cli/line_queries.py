"""The condition of a verb about output: its query, and `--stream`."""

from __future__ import annotations

import argparse

from rota.cli.logs import check_stream
from rota.cli.query_words import query_text
from rota.clock import SystemClock
from rota.model.query.fields import Searched
from rota.model.query.normal import all_of
from rota.model.query.parse import parse
from rota.model.query.tree import Condition, How, Term
from rota.model.times import Instant


def check_lines(args: argparse.Namespace) -> None:
    """Refuses what is wrong before a store is looked for."""
    check_stream(args.stream)
    where_of_lines(args, SystemClock().now())


def where_of_lines(args: argparse.Namespace, now: Instant) -> Condition:
    """With times that count from this instant."""
    where = parse(query_text(args.query or ()), now, Searched.OUTPUT)
    return where if args.stream is None else all_of((where, Term("stream", How.IS, args.stream)))

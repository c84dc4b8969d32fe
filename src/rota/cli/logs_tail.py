"""`rota logs tail`: follows the output of all jobs that fit a query."""

from __future__ import annotations

import argparse

from rota.cli.line_rows import LineRows
from rota.cli.logs import check_stream
from rota.cli.query_words import query_text
from rota.cli.session import existing
from rota.cli.show import complain
from rota.clients.line_tail import LineTail
from rota.model.query.fields import Searched
from rota.model.query.normal import all_of
from rota.model.query.parse import parse
from rota.model.query.tree import Condition, How, Term
from rota.model.times import Instant


async def tail_(args: argparse.Namespace) -> int:
    check_stream(args.stream)
    async with existing(args) as client:
        tail = LineTail(client.store, client.who, _where(args, client.store.now()))
        rows = LineRows(args)
        trouble: str | None = None
        async for placed in tail.placed():
            if tail.trouble is not None and trouble is None:
                complain(f"{tail.trouble}; the lines go on when it is back")
            trouble = tail.trouble
            rows.print(line for line, _ in placed)
    return 0


def _where(args: argparse.Namespace, now: Instant) -> Condition:
    where = parse(query_text(args.query or ()), now, Searched.OUTPUT)
    return where if args.stream is None else all_of((where, Term("stream", How.IS, args.stream)))

"""`rota logs tail`: follows the output of all jobs that fit a query."""

from __future__ import annotations

import argparse

from rota.cli.line_queries import check_lines, where_of_lines
from rota.cli.line_rows import LineRows
from rota.cli.session import existing
from rota.cli.show import complain
from rota.clients.line_tail import LineTail


async def tail_(args: argparse.Namespace) -> int:
    check_lines(args)
    async with existing(args) as client:
        tail = LineTail(client.store, client.who, where_of_lines(args, client.store.now()))
        rows = LineRows(args.json, whole_times=args.timestamps)
        trouble: str | None = None
        async for placed in tail.placed():
            if tail.trouble is not None and trouble is None:
                complain(f"{tail.trouble}; the lines go on when it is back")
            trouble = tail.trouble
            rows.print(line for line, _ in placed)
    return 0

"""`rota flow ...`: flows and their feedback levels."""

from __future__ import annotations

import argparse

from rota.cli.session import admissions_of, existing
from rota.cli.show import document, table
from rota.model.times import short


async def list_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        found = await admissions_of(client).flows(args.limit)
    if args.json:
        document([
            {"queue": one.queue, "flow": one.flow, "level": one.level, "used": short(one.used)} for one in found
        ])  # fmt: skip
        return 0
    rows = ((one.queue, one.flow, str(one.level), short(one.used // 1000 * 1000)) for one in found)
    table(("QUEUE", "FLOW", "LEVEL", "USED"), rows)
    return 0

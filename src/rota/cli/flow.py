"""`rota flow ...`: flows and their feedback levels."""

from __future__ import annotations

import argparse

from rota.cli.session import admissions_of, existing
from rota.cli.show import listing
from rota.model.times import short


async def list_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        found = await admissions_of(client).flows(args.limit)
    wires = ({"queue": one.queue, "flow": one.flow, "level": one.level, "used": short(one.used)} for one in found)
    rows = ((one.queue, one.flow, str(one.level), short(one.used // 1000 * 1000)) for one in found)
    return listing(args, wires, ("QUEUE", "FLOW", "LEVEL", "USED"), rows)

"""`rota flow ...`: flows and their feedback levels."""

from __future__ import annotations

import argparse

from rota.cli.session import admissions_of, existing
from rota.cli.show import listing
from rota.model.times import as_duration, short
from rota.views.admission import FlowView


async def list_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        found = await admissions_of(client).flows(args.limit)
    rows = ((one.queue, one.flow, str(one.level), short(as_duration(one.used) // 1000 * 1000)) for one in found)
    return listing(args, map(FlowView.of, found), ("QUEUE", "FLOW", "LEVEL", "USED"), rows)

"""`rota limit ...`: keys that jobs need in order to start, and their bounds."""

from __future__ import annotations

import argparse

from rota.cli.session import admissions_of, existing, utf8
from rota.cli.show import Cell, age, ago, answer, listing
from rota.errors import NotFound
from rota.model.limits import bounds_text, concurrency, key_name, rate, rate_text
from rota.model.times import Instant, as_instant
from rota.store.admission import LimitInfo
from rota.views.admission import BoundsView, LimitView

MOST_SHOWN = 5  # holders of a key, in a table
SHORT = 8


async def list_(args: argparse.Namespace) -> int:
    wanted = [key_name(utf8(key, "KEY")) for key in dict.fromkeys(args.keys)] or None
    async with existing(args) as client:
        found = await admissions_of(client).limits(wanted)
        now = client.store.now()
    known = {info.key for info in found}
    for key in wanted or ():
        if key not in known:
            raise NotFound("limit, holder or waiting job of key", key)
    headers = ("KEY", "AT ONCE", "RATE", "WAITING", "NEXT START", "HOLDERS")
    return listing(args, map(LimitView.of, found), headers, (_row(info, now) for info in found))


def _row(info: LimitInfo, now: Instant) -> tuple[Cell, ...]:
    own = info.concurrency is None and info.rate is None
    at_once = "as jobs say" if own else str(info.concurrency or "")
    return (
        info.key, at_once, rate_text(info.rate) if info.rate else "", str(info.waiting), ago(info.next_start, now),
        _holders(info, now),
    )  # fmt: skip


def _holders(info: LimitInfo, now: Instant) -> str:
    named = [f"…{one.job[-SHORT:]} for {age(now - as_instant(one.since))}" for one in info.holders[:MOST_SHOWN]]
    rest = len(info.holders) - MOST_SHOWN
    return ", ".join(named) + (f" and {rest:,} more" if rest > 0 else "")


async def set_(args: argparse.Namespace) -> int:
    key_name(utf8(args.key, "KEY"))
    if args.at_once is None and args.rate is None:
        args.parser.error("give --at-once N, --rate N/WINDOW, or both")
    at_once = None if args.at_once is None else concurrency(args.at_once, "--at-once")
    starts = None if args.rate is None else rate(args.rate)
    async with existing(args) as client:
        limit = await admissions_of(client).set_limit(args.key, at_once=at_once, starts=starts)
    return answer(args, BoundsView.of(limit), f"{limit.key}: {bounds_text(limit.concurrency, limit.rate)}")


async def remove_(args: argparse.Namespace) -> int:
    key_name(utf8(args.key, "KEY"))
    async with existing(args) as client:
        await admissions_of(client).remove_limit(args.key)
    text = f"{args.key} removed; its jobs have the bounds that they bring along"
    return answer(args, {"key": args.key, "removed": True}, text)

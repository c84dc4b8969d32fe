"""`rota lock list` and `release`: who holds which lock, and an end for a holder that hangs."""

from __future__ import annotations

import argparse
import sys

from rota.cli.session import existing, locks_of, utf8
from rota.cli.show import Cell, age, answer, complain, listing
from rota.errors import InvalidInput
from rota.model.locks import LockInfo, lock_name
from rota.model.times import Instant, as_instant
from rota.views.locks import LockView


async def list_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        found = await locks_of(client).locks()
        now = client.store.now()
    headers = ("LOCK", "STATE", "FENCE", "TAKEN", "ENDS")
    return listing(args, map(LockView.of, found), headers, (_row(lock, now) for lock in found))


def _row(lock: LockInfo, now: Instant) -> tuple[Cell, ...]:
    state: Cell = ("held", "cyan") if lock.held else "free"
    end = as_instant(lock.expires_at)
    ends = f"in {age(end - now)}" if lock.held else f"{age(now - end)} ago"
    return lock.name, state, str(lock.fence), f"{age(now - as_instant(lock.taken_at))} ago", ends


async def release_(args: argparse.Namespace) -> int:
    name = lock_name(utf8(args.lock, "NAME"))
    if not args.yes and not _confirmed(name):
        print("nothing was changed", file=sys.stderr)
        return 1
    async with existing(args) as client:
        await locks_of(client).free(name)
    return answer(args, {"name": name, "released": True}, f"{name} released; whoever held it loses it")


def _confirmed(name: str) -> bool:
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        raise InvalidInput("lock release", "no terminal to ask on", "--yes, if you mean it: its holder loses it")
    complain(f"whoever holds lock {name!r} loses it, and may go on until it learns that")
    print("go on? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")

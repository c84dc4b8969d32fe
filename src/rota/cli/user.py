"""`rota user ...`: users of access keys, and their quotas."""

from __future__ import annotations

import argparse

import msgspec

from rota.cli.key import HEADERS, key_row
from rota.cli.session import existing, people_of, utf8
from rota.cli.show import Cell, ago, answer, document, facts, listing, table
from rota.model.times import Instant
from rota.store.people import UserInfo
from rota.views.people import KeyView, UserView


async def add_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        info = await people_of(client).add_user(utf8(args.user, "USER"), args.quota)
    return answer(args, UserView.of(info), f"{info.name} added; `rota key add --user {info.name}` gives it access")


async def list_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        found = await people_of(client).users()
        now = client.store.now()
    headers = ("USER", "KEYS", "QUOTAS", "ADDED", "BY")
    return listing(args, map(UserView.of, found), headers, (_row(info, now) for info in found))


def _row(info: UserInfo, now: Instant) -> tuple[Cell, ...]:
    return info.name, str(info.keys), _quotas(info), ago(info.created_at, now), info.created_by


def _quotas(info: UserInfo) -> str:
    return ", ".join(f"{name}={bound}" for name, bound in info.quotas.texts().items())


async def show_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        people = people_of(client)
        info = await people.user(utf8(args.user, "USER"))
        keys = await people.keys(info.name)
        now = client.store.now()
    if args.json:
        document({**msgspec.to_builtins(UserView.of(info)), "access_keys": [KeyView.of(key, now) for key in keys]})
        return 0
    facts(
        [("user", info.name), ("quotas", _quotas(info)), ("added", f"{ago(info.created_at, now)} by {info.created_by}")]
    )
    if keys:
        print()
        table(HEADERS, [key_row(key, now) for key in keys])
    return 0


async def set_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        info = await people_of(client).set_quotas(utf8(args.user, "USER"), args.quota)
    return answer(args, UserView.of(info), f"{info.name}: {_quotas(info) or 'no quotas'}")


async def remove_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        revoked = await people_of(client).remove_user(utf8(args.user, "USER"))
    wire = {"name": args.user, "removed": True, "revoked_keys": revoked}
    return answer(args, wire, f"{args.user} removed, with {revoked} key{'' if revoked == 1 else 's'}; its jobs stay")

"""`rota key ...`: access keys. The text of a key is printed once, alone on stdout; what else there is to say goes to
stderr."""

from __future__ import annotations

import argparse
import sys

from rota.cli.session import existing, people_of, utf8
from rota.cli.show import Cell, ago, answer, document, listing, safe
from rota.clients.people import ShownOnce
from rota.errors import InvalidInput
from rota.model.access_keys import AccessKey
from rota.model.times import Duration, Instant, duration, some_time
from rota.views.people import KeyView, NewKeyView

HEADERS = ("ID", "USER", "ROLE", "STATE", "FOR", "NAME", "EXPIRES", "LAST USED", "ADDED")


async def add_(args: argparse.Namespace) -> int:
    lives = _life(args)
    async with existing(args) as client:
        now = client.store.now()
        made = await people_of(client).add_key(
            utf8(args.user, "--user"), args.role, queues=_parts(args.queues, "--queues"),
            tasks=_parts(args.tasks, "--tasks"), allow=_parts(args.allow, "--allow"),
            expires_at=None if lives is None else now + lives, name=utf8(args.name, "--name"),
        )  # fmt: skip
    return _shown(args, made, now)


async def rotate_(args: argparse.Namespace) -> int:
    lives, overlap = _life(args), duration(args.overlap, "--overlap")
    async with existing(args) as client:
        now = client.store.now()
        expires_at = None if lives is None else now + lives
        made = await people_of(client).rotate_key(utf8(args.key, "ID"), overlap, expires_at)
    return _shown(args, made, now)


def _shown(args: argparse.Namespace, made: ShownOnce, now: Instant) -> int:
    if args.json:
        document(NewKeyView.of(made.key, made.text, now))
        return 0
    key = made.key
    said = f"{key.role} key {key.id} of user {key.user}" + (f", instead of {key.replaces}" if key.replaces else "")
    print(made.text, flush=True)
    print(safe(f"rota: {said}; it is shown only now"), file=sys.stderr)
    return 0


def _life(args: argparse.Namespace) -> Duration | None:
    return None if args.expires is None else some_time(args.expires, "--expires")


def _parts(given: str | None, what: str) -> list[str]:
    if given is None:
        return []
    parts = [part.strip() for part in utf8(given, what).split(",")]
    if not all(parts):
        raise InvalidInput(what, given, "names joined by commas")
    return parts


async def list_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        found = await people_of(client).keys(None if args.user is None else utf8(args.user, "--user"), args.past)
        now = client.store.now()
    return listing(args, (KeyView.of(key, now) for key in found), HEADERS, (key_row(key, now) for key in found))


def key_row(key: AccessKey, now: Instant) -> tuple[Cell, ...]:
    scope = [*(f"+{one}" for one in key.extra), *(f"queue {one}" for one in key.queues)]
    scope += [f"task {one}" for one in key.tasks]
    return (
        key.id, key.user, str(key.role), str(key.state(now)), ", ".join(scope), key.name, ago(key.expires_at, now),
        ago(key.last_used_at, now) or "never", ago(key.created_at, now),
    )  # fmt: skip


async def revoke_(args: argparse.Namespace) -> int:
    wanted = list(dict.fromkeys(utf8(key, "ID") for key in args.keys))
    async with existing(args) as client:
        for key in wanted:
            await people_of(client).revoke_key(key)
    return answer(args, [{"id": key, "revoked": True} for key in wanted], f"{', '.join(wanted)} revoked")

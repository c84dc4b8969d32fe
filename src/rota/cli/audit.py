"""`rota audit`: who changed what, latest first."""

from __future__ import annotations

import argparse
from typing import Any

from rota.cli.session import existing, people_of, utf8
from rota.cli.show import Cell, ago, listing
from rota.errors import InvalidInput
from rota.model.access import user_name
from rota.model.times import Instant, duration, instant
from rota.store.base import Store
from rota.store.people import AuditEntry, AuditFilter
from rota.store.verbs import verbs
from rota.views.people import AuditView

MOST_SHOWN = 3  # subjects of a row, in a table


async def audit_(args: argparse.Namespace) -> int:
    deed, user = _deed(args.deed), None if args.user is None else user_name(utf8(args.user, "--user"))
    async with existing(args) as client:
        now = client.store.now()
        since, until = _when(args.since, "--since", now), _when(args.until, "--until", now)
        query = AuditFilter(user=user, deed=deed, since=since, until=until, limit=args.limit)
        found = await people_of(client).audit(query)
    headers = ("WHEN", "USER", "KEY", "DEED", "WHAT", "WITH")
    return listing(args, map(AuditView.of, found), headers, (_row(row, now) for row in found))


def _deed(given: str | None) -> str | None:
    known = sorted(name for name, verb in verbs(Store).items() if verb.deed is not None)
    if given is not None and given not in known:
        raise InvalidInput("--deed", given, f"one of {', '.join(known)}")
    return given


def _when(given: str | None, what: str, now: Instant) -> Instant | None:
    """A duration ago, or a time."""
    if given is None:
        return None
    try:
        return now - duration(given, what)
    except InvalidInput:
        return instant(given, what)


def _row(row: AuditEntry, now: Instant) -> tuple[Cell, ...]:
    rest = row.total - MOST_SHOWN
    subjects = ", ".join(row.subjects[:MOST_SHOWN]) + (f" and {rest:,} more" if rest > 0 else "")
    return ago(row.at, now), row.user, row.key, row.deed, subjects, _data(row.data)


def _data(data: dict[str, Any]) -> str:
    return ", ".join(f"{name}={_value(value)}" for name, value in data.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={part}" for name, part in value.items() if part is not None)
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)

"""`rota gate ...`: rules that hold or drop matching jobs at run time."""

from __future__ import annotations

import argparse
from typing import Any

from rota.cli.session import admissions_of, existing, utf8
from rota.cli.show import Cell, age, ago, answer, listing
from rota.model.gates import Gate, Match, match
from rota.model.times import Duration, Instant, as_instant, instant, iso, some_time
from rota.views.admission import GateView

SHORT = 8  # characters of an id; its end differs most


async def list_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        gates = await admissions_of(client).gates()
        now = client.store.now()
    headers = ("ID", "EFFECT", "MATCHES", "BY", "SINCE", "UNTIL", "HELD", "DROPPED", "REASON")
    return listing(args, map(GateView.of, gates), headers, (_row(gate, now) for gate in gates))


def _row(gate: Gate, now: Instant) -> tuple[Cell, ...]:
    effect = (str(gate.effect), "red" if gate.effect == "drop" else "yellow")
    since, until = ago(gate.created_at, now), "" if gate.until is None else f"in {age(as_instant(gate.until) - now)}"
    held, dropped = str(gate.held), str(gate.dropped)
    return gate.id[-SHORT:], effect, gate.match.text(), gate.author, since, until, held, dropped, gate.reason


async def pause_(args: argparse.Namespace) -> int:
    return await _close(args, "holds")


async def drop_(args: argparse.Namespace) -> int:
    return await _close(args, "drops")


async def _close(args: argparse.Namespace, does: str) -> int:
    which = _which(args)
    span = _span(args)
    async with existing(args) as client:
        until = args.until if span is None else iso(client.store.now() + span)
        admissions = admissions_of(client)
        close = admissions.pause if does == "holds" else admissions.drop
        gate = await close(reason=args.reason, until=until, **which)
    end = "" if gate.until is None else f" until {iso(gate.until)}"
    return answer(args, GateView.of(gate), f"{gate.id} {does} {gate.match.text()}{end}")


def _which(args: argparse.Namespace) -> dict[str, Any]:
    """The match of a new gate, checked before any store is opened."""
    named = {kind: getattr(args, kind) for kind in Match.__struct_fields__}
    if args.all == any(value is not None for value in named.values()):
        problem = "--all goes alone" if args.all else "say which jobs"
        args.parser.error(f"{problem}: --task, --queue, --user and --label, or --all")
    which = {"everything": True} if args.all else named
    match(**which)
    utf8(args.reason, "--reason")
    return which


def _span(args: argparse.Namespace) -> Duration | None:
    if args.until is not None:
        instant(args.until, "--until")
    return None if args.for_ is None else some_time(args.for_, "--for")


async def open_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        gate = await admissions_of(client).open(utf8(args.gate, "ID").lower())
    goes = f"; {gate.held:,} that it held go on" if gate.held else ""
    return answer(args, GateView.of(gate), f"{gate.id} opened{goes}")

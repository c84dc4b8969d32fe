"""`rota hot`: the members of the hot tier, what they hold, and whether that is what the store says."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rota.cli.session import existing
from rota.cli.show import Cell, answer, listing
from rota.clock import Chance
from rota.errors import StoreError, StoreUnavailable
from rota.hot.check import HeapCheck, check
from rota.hot.heap import filled
from rota.hot.lane import HotAway, HotRefused
from rota.hot.member import Member
from rota.hot.refiller import refill
from rota.hot.side import HotSide
from rota.hot.store import PATIENCE, HotStore
from rota.model.times import iso
from rota.store.base import Store
from rota.views.hot import HeapCheckView, MemberView


async def status_(args: argparse.Namespace) -> int:
    async with _reached(args) as (_, side):
        views = [await _view(member) for member in side.members]
    headers = ("MEMBER", "STATE", "SERVER", "DUE JOBS", "REPORTS", "MEMORY", "PROBLEM")
    listing(args, views, headers, map(_row, views))
    return 0 if all(view.problem is None for view in views) else 1


async def refill_(args: argparse.Namespace) -> int:
    async with _reached(args, whole=True) as (store, side):
        count = await refill(store, side.heap, Chance().token())
        _check_members(side)
    return answer(args, {"added": count}, f"{count} jobs were added, all that are due within 90 minutes")


async def check_(args: argparse.Namespace) -> int:
    async with _reached(args, whole=True) as (store, side):
        try:
            found = await check(store, side.heap)
        except (HotAway, HotRefused) as error:
            raise StoreUnavailable(f"the hot tier: {error}") from None
    answer(args, HeapCheckView.of(found), _told(found))
    return 1 if found.missing_count else 0


@asynccontextmanager
async def _reached(args: argparse.Namespace, whole: bool = False) -> AsyncIterator[tuple[Store, HotSide]]:
    """The store, and its hot tier when all members have answered or failed to. `whole`: all must have answered."""
    async with existing(args) as client:
        if not isinstance(client.store, HotStore):
            raise StoreError("no hot tier is set; ROTA_HOT names one, such as redis://localhost:6379/0")
        side = client.store.side()
        await side.reached(PATIENCE)
        if whole:
            _check_members(side)
        yield client.store.inner, side


def _check_members(side: HotSide) -> None:
    for member in side.members:
        if member.problem is not None:
            raise StoreUnavailable(f"the hot tier at {member.place} can't be used: {member.problem}")


async def _view(member: Member) -> MemberView:
    try:
        state = await member.call(lambda lane: lane.state())
    except (HotAway, HotRefused) as error:
        return MemberView(member.place, problem=str(error))
    return MemberView(
        member.place, bool(filled(state.epoch)), state.server, state.entries, state.reports, state.memory, state.most
    )


def _row(view: MemberView) -> tuple[Cell, ...]:
    if view.problem is not None:
        return view.member, ("away", "red"), "", "", "", "", view.problem
    state: Cell = ("filled", "green") if view.filled else ("not filled", "yellow")
    memory = "" if view.memory is None else f"{view.memory / 1e6:.1f} MB"
    memory += f" of {view.max_memory / 1e6:.0f} MB" if view.max_memory else ""
    return view.member, state, view.server or "", str(view.due_jobs), str(view.reports), memory, ""


def _told(found: HeapCheck) -> str:
    lines = [f"{found.scheduled} jobs are due within the hour, {found.entries} entries stand in the heap"]
    if found.missing_count:
        examples = ", ".join(f"{job.id} ({iso(job.at)})" for job in found.missing)
        lines.append(f"{found.missing_count} jobs are not in the heap, and the sweep will find them: {examples}")
    if found.idle_count:
        lines.append(f"{found.idle_count} entries stand for no scheduled job; they do no harm")
    if not found.missing_count and not found.idle_count:
        lines.append("they are the same")
    return "; ".join(lines)

"""`rota queue ...`: jobs of queues, and pausing them."""

from __future__ import annotations

import argparse

from rota.cli.session import admissions_of, existing, utf8
from rota.cli.show import Cell, age, ago, answer, complain, document, listing
from rota.clients.jobs import JobsClient
from rota.errors import InvalidInput
from rota.model.feedback import read_feedback
from rota.model.job import queue_name
from rota.model.rank import STRICT, ageing_step
from rota.model.times import SECOND, Instant, as_duration, as_instant, short
from rota.store.admission import LATELY, QueueInfo
from rota.views.admission import FeedbackView, QueueView


async def list_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        found = await admissions_of(client).queues()
        now = client.store.now()
    headers = (
        "NAME", "READY", "RUNNING", "HELD", "SCHEDULED", "BLOCKED", "OLDEST", "ENDED/S", "NODES", "SLOTS", "FEEDBACK",
        "PAUSED",
    )  # fmt: skip
    listing(args, map(QueueView.of, found), headers, (_row(info, now) for info in found))
    for info in found:
        if info.unoffered and not args.json:
            names = ", ".join(info.unoffered)
            complain(f"queue {info.name}: jobs wait for tasks that no node has ever offered: {names}")
    return 0


def _row(info: QueueInfo, now: Instant) -> tuple[Cell, ...]:
    oldest = "" if info.oldest is None else age(now - as_instant(info.oldest))
    counts = (info.ready, info.running, info.held, info.scheduled, info.blocked)
    served = f"{_pace(info):.1f}", str(info.nodes), str(info.slots)
    feedback = "" if info.feedback is None else f"{info.feedback.levels} levels"
    return info.name, *map(str, counts), oldest, *served, feedback, _paused(info, now)


def _pace(info: QueueInfo) -> float:
    return info.ended * SECOND / LATELY


def _paused(info: QueueInfo, now: Instant) -> Cell:
    if info.paused_at is None:
        return ""
    note = f": {info.note}" if info.note else ""
    return f"by {info.paused_by} {ago(info.paused_at, now)}{note}", "yellow"


async def pause_(args: argparse.Namespace) -> int:
    queue_name(args.queue)
    note = utf8(args.note or "", "--note")
    async with existing(args) as client:
        admissions = admissions_of(client)
        before = await _find(client, args.queue)
        if args.note is None and before.paused_at is not None:  # the earlier note still holds
            note = before.note
        await admissions.pause_queue(args.queue, note)
        info = await _find(client, args.queue)
    live = info.ready + info.held + info.scheduled + info.blocked
    unknown = "; so far it has no jobs, and no node serves it" if not (live or info.running or info.nodes) else ""
    goes_on = f"; {info.running:,} that run go on" if info.running else ""
    return answer(args, QueueView.of(info), f"{args.queue} paused{goes_on}{unknown}")


async def _find(client: JobsClient, name: str) -> QueueInfo:
    return next((info for info in await admissions_of(client).queues() if info.name == name), QueueInfo(name=name))


async def resume_(args: argparse.Namespace) -> int:
    queue_name(args.queue)
    async with existing(args) as client:
        resumed = await admissions_of(client).resume_queue(args.queue)
    if args.json:
        document({"name": args.queue, "resumed": resumed})
    elif resumed:
        print(f"{args.queue} resumed")
    else:
        complain(f"queue {args.queue!r} was not paused")
    return 0 if resumed else 1


async def set_(args: argparse.Namespace) -> int:
    queue_name(args.queue)
    rule = {name: getattr(args, name) for name in ("quantum", "levels", "boost")}
    if args.feedback != "on" and any(value is not None for value in rule.values()):
        raise InvalidInput("--quantum, --levels and --boost", "given", "them together with --feedback on")
    if args.step is None and args.feedback is None:
        raise InvalidInput("queue set", args.queue, "--step or --feedback, or both")
    if args.step is not None:
        ageing_step(args.step)
    read_feedback(**{name: value for name, value in rule.items() if value is not None})
    async with existing(args) as client:
        admissions = admissions_of(client)
        if args.step is not None:
            await admissions.set_step(args.queue, args.step)
        if args.feedback is not None:
            await admissions.set_feedback(args.queue, args.feedback == "on", **rule)
        info = await _find(client, args.queue)
    step = "as everywhere" if info.step is None else "strict" if as_duration(info.step) == STRICT else short(info.step)
    shown = FeedbackView.of(info.feedback)
    levels = "off" if shown is None else f"{shown.levels} levels, quantum {shown.quantum}, boost {shown.boost}"
    return answer(args, QueueView.of(info), f"{args.queue}: step {step}; feedback {levels}")

"""`rota events`: what happened, and with --follow what happens."""

from __future__ import annotations

import argparse

from rota.cli.session import existing
from rota.cli.show import json_line, safe
from rota.clients.events import EventsClient
from rota.errors import InvalidInput
from rota.model.events import EventFilter, EventInfo, EventPlace, read_place


async def events_(args: argparse.Namespace) -> int:
    which = EventFilter(
        kinds=tuple(args.kind or ()), job=args.job, task=args.task, queue=args.queue, schedule=args.schedule,
        workflow=args.workflow,
    )  # fmt: skip
    after = None if args.after is None else read_place(args.after, "--after")
    async with existing(args) as client:
        if which.job is not None:
            which = _with(which, job=await client.resolve(which.job))
        if which.workflow is not None:
            which = _with(which, workflow=await client.workflow(which.workflow))
        events = EventsClient(client.store, client.who)
        if args.follow or after is not None:  # whoever goes on behind an id, or waits, expects all
            await events.watch(which)
        span = await client.store.outbox_span(client.who)
        if after is None:
            after = EventPlace(span.last if args.follow else span.first - 1)
        elif not span.first - 1 <= after.seq <= span.last:
            raise InvalidInput(
                "--after", args.after, f"an id from {span.first - 1} to {span.last}: others are not kept"
            )
        async for event in events.follow(after, which, args.follow):
            if args.json:
                json_line(event)
            else:
                print(safe(_line(event)), flush=True)
    return 0


def _with(which: EventFilter, **changes: str) -> EventFilter:
    import msgspec

    return msgspec.structs.replace(which, **changes)


def _line(event: EventInfo) -> str:
    told = " ".join(f"{name}={_text(value)}" for name, value in event.data.items() if value not in (None, ""))
    at = f"{event.at:%Y-%m-%d %H:%M:%S}.{event.at.microsecond // 1000:03}Z"
    return f"{at}  {event.kind}  {event.subject}  {told}".rstrip()


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)

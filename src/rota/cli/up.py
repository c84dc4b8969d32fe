"""`rota up`: a node in this process, until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from contextlib import suppress

import msgspec

from rota.app import App
from rota.cli import leaving
from rota.cli.session import make_app
from rota.clock import Clock
from rota.logs.capture import captured
from rota.model.times import iso
from rota.telemetry.events import Event, Subscriber
from rota.telemetry.lines import Lines

# Threads with functions share the interpreter with the loop that claims and settles. With Python's default of 5 ms the
# loop waits that long for its turn whenever a function computes.
SWITCH_INTERVAL = 0.0005


async def up_(args: argparse.Namespace) -> int:
    queues = args.queues if args.slots is None else {"default": args.slots}
    app = make_app(args, roles=args.roles, queues=queues, node=args.node, grace=args.grace)
    app.bus.subscribe(_unfailing(_teller(args, app.clock)))
    sys.setswitchinterval(SWITCH_INTERVAL)
    with captured():
        await _serve(app)
    return 0


async def _serve(app: App) -> None:
    await app.migrate()
    async with app:
        node = await app.node()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, node.stop)
        await node.run()
        if node.remains is not None:
            leaving.become(app.settings.store, node.remains, node.store.guards(node.remains))


def _teller(args: argparse.Namespace, clock: Clock) -> Subscriber:
    if args.json:
        return _JsonLines(clock)
    return Lines(clock, "debug" if args.verbose else "warning" if args.quiet else "info")


def _unfailing(teller: Subscriber) -> Subscriber:
    """A terminal that was closed or a pipe that nobody reads must not stop the work."""

    def tell(event: Event) -> None:
        with suppress(OSError, ValueError):
            teller(event)

    return tell


class _JsonLines:
    """Every event as one JSON object per line."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._stream = clock, sys.stdout

    def __call__(self, event: Event) -> None:
        line = {"at": iso(self._clock.now()), "event": type(event).__name__, **msgspec.to_builtins(event)}
        print(msgspec.json.encode(line).decode(), file=self._stream, flush=True)

"""`rota up`: a node in this process, until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import resource
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from rota.app_core import AppCore
from rota.cli import last_writes, reload
from rota.cli.echo import Echo, Stdout, as_json, as_text
from rota.cli.session import make_app
from rota.cli.show import complain
from rota.clock import Clock
from rota.logs.capture import captured
from rota.node import Node, StuckNode
from rota.telemetry.events import LoopBlocked, Subscriber
from rota.telemetry.lines import Background, JsonLines, Lines
from rota.telemetry.stall import watched
from rota.telemetry.systemd import SystemdNotifier

# Threads with functions share the interpreter with the loop that claims and settles. With Python's default of 5 ms the
# loop waits that long for its turn whenever a function computes.
SWITCH_INTERVAL = 0.0005
# Modules stay loaded, and jobs leave little garbage that reference counts don't free: the collector need not run after
# every few hundred objects.
YOUNG_OBJECTS = 50_000
STUCK = 1  # the exit code


async def up_(args: argparse.Namespace) -> int:
    queues = args.queues if args.slots is None else {"default": args.slots}
    grace = reload.GRACE if args.reload and args.grace is None else args.grace
    app = make_app(args, roles=args.roles, queues=queues, node=args.node, grace=grace, **_api(args))
    stdout = _stdout(args) if args.json or args.echo else None
    told = Background(_teller(args, app.clock, stdout))
    echo = Echo(stdout.write, app.clock, as_json if args.json else as_text) if stdout and args.echo else None
    app.bus.echo = echo.open if echo else None
    app.bus.subscribe(told, every_attempt=args.json or args.verbose)
    if address := os.environ.get("NOTIFY_SOCKET"):
        app.bus.subscribe(SystemdNotifier(address), every_attempt=False)
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)
    _raise_descriptor_limit()
    with captured(), watched(sys.__stderr__ or sys.stderr, lambda seconds: told(LoopBlocked(seconds))):
        await _serve(args, app, [told, echo] if echo else [told])
    return 0


def _api(args: argparse.Namespace) -> dict[str, Any]:
    """The settings of the HTTP API that options give."""
    return {
        "api_host": args.host, "api_port": args.port, "api_hosts": args.hosts, "api_proxies": args.behind_proxy,
        "api_tls_cert": args.tls_cert, "api_tls_key": args.tls_key,
    }  # fmt: skip


async def _serve(args: argparse.Namespace, app: AppCore, ends: Sequence[Background | Echo]) -> None:
    if not app.settings.server:
        await app.migrate()
    async with app:
        node = await app.node(api=True)
        if "api" in node.roles:
            await _first_key(app, node)

        def told_to_stop() -> None:
            args.reload = False  # also if it was about to start again
            node.stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, told_to_stop)
        watching = asyncio.create_task(_reload(args, node)) if args.reload else None
        try:
            await node.run()
        except StuckNode as error:
            # The hanging part would block an orderly end too. Keeper and kernel clean up.
            for end in ends:
                end.close()
            complain(str(error))
            os._exit(STUCK)
        finally:
            for end in ends:
                end.close()
            if watching:
                watching.cancel()
        if node.remains is not None:
            last_writes.become(app.settings, node.remains, node.store.guards(node.remains))


async def _first_key(app: AppCore, node: Node) -> None:
    from rota.clients.key_files import make_first_key

    settings = app.settings
    if line := await make_first_key(node.store, settings.store, settings.user, app.chance, sys.stderr.isatty()):
        complain(line)


async def _reload(args: argparse.Namespace, node: Node) -> None:
    """Stops the node after a change; `cli.main` then starts it again."""
    await reload.watch(args.app, node.stop, args.imported)
    args.changed = True


def _raise_descriptor_limit() -> None:
    """Every command needs a few descriptors; many systems allow 1024 by default."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65_536) if most > 0 else 65_536, most))


def _stdout(args: argparse.Namespace) -> Stdout:
    return Stdout(sys.stdout.fileno(), "utf-8" if args.json else sys.stdout.encoding)


def _teller(args: argparse.Namespace, clock: Clock, stdout: Stdout | None) -> Subscriber:
    if args.json and stdout:
        return JsonLines(clock, stdout)
    return Lines(clock, "debug" if args.verbose else "warning" if args.quiet else "info")

"""`rota node ...`: the processes that run jobs."""

from __future__ import annotations

import argparse

from rota import config
from rota.cli.session import existing
from rota.cli.show import Cell, ago, answer, listing, state
from rota.errors import InvalidInput
from rota.model.node import NodeInfo, NodeState
from rota.model.times import Instant
from rota.views.nodes import NodeView, shown_state


async def list_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        nodes = await client.store.nodes(client.who, args.past)
        now = client.store.now()
    headers = (
        "ID",
        "STATE",
        "ROLES",
        "QUEUES",
        "SLOTS",
        "RUNNING",
        "LEADER",
        "LAST SEEN",
        "STARTED",
        "VERSION",
        "ACCESS",
    )
    return listing(args, (NodeView.of(node, now) for node in nodes), headers, (_row(node, now) for node in nodes))


async def check_(args: argparse.Namespace) -> int:
    """For probes: exit 0 if the node renews its lease."""
    wanted = args.id or config.load().node
    if not wanted:
        raise InvalidInput("node", "", "its id, as an argument or in ROTA_NODE")
    async with existing(args) as client:
        now = client.store.now()
        found = {node.id: shown_state(node, now) for node in await client.store.nodes(client.who, False)}
    state_now = found.get(wanted, "not there")
    answer(args, {"id": wanted, "state": state_now}, f"node {wanted} is {state_now}")
    return 0 if state_now in (NodeState.LIVE, NodeState.STOPPING) else 1


def _row(node: NodeInfo, now: Instant) -> tuple[Cell, ...]:
    queues = ", ".join(f"{queue}:{slots}" for queue, slots in node.queues.items())
    shown = state(shown_state(node, now))
    seen, started = ago(node.seen_at, now), ago(node.started_at, now)
    slots, leads = str(sum(node.queues.values())), "yes" if node.leader else ""
    roles = ", ".join(node.roles)
    access = f"{node.access.user}, key {node.access.key}" if node.access else ""
    return node.id, shown, roles, queues, slots, str(node.running), leads, seen, started, node.version, access

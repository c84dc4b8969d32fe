"""`rota migrate` and `rota doctor`: the store itself."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from rota.app_core import AppCore
from rota.cli.session import check_exists, client_place, raw_store
from rota.cli.show import answer, complain, listing
from rota.config import CONFIG, FILE, PREFIX, Settings, variables
from rota.errors import StoreError
from rota.model.lifecycle import State
from rota.store.base import Store
from rota.store.values import Finding
from rota.views.nodes import shown_state


async def migrate_(args: argparse.Namespace) -> int:
    app = AppCore(args.store)
    async with raw_store(app) as store:
        before, after = await store.migrate(complain)
    said = f"is up to date: schema {after}" if before == after else f"migrated from schema {before} to {after}"
    wire = {"store": app.settings.place, "before": before, "after": after}
    return answer(args, wire, f"{app.settings.place} {said}")


async def doctor_(args: argparse.Namespace) -> int:
    app = AppCore(**(client_place(args) if args.server else {"store": args.store}))
    if app.settings.server or args.server:
        from rota.cli import server_doctor

        found = await server_doctor.examine(app)
    else:
        found = await _examine(app)
    findings = [_settings(args, app.settings), *found]
    rows = ((_mark(finding), finding.name, finding.text) for finding in findings)
    listing(args, findings, ("", "WHAT", "FOUND"), rows)
    return 0 if all(finding.ok for finding in findings) else 1


def _mark(finding: Finding) -> tuple[str, str]:
    return ("ok", "green") if finding.ok else ("BAD", "red")


async def _examine(app: AppCore) -> list[Finding]:
    try:
        check_exists(app)
        async with raw_store(app) as store:
            findings = await store.examine()
            if all(finding.ok for finding in findings if finding.name == "schema"):
                findings.append(await _nodes(app, store))
    except StoreError as error:
        return [Finding("store", False, str(error))]
    return [Finding("store", True, app.settings.place), *findings]


async def _nodes(app: AppCore, store: Store) -> Finding:
    """Ready jobs without a live node are a problem; an idle store without nodes is not."""
    now = store.now()
    states = [shown_state(node, now) for node in await store.nodes(app.who)]
    live = states.count("live")
    waiting = (await store.counts(app.who)).get(State.READY, 0)
    text = ", ".join(f"{states.count(name)} {name}" for name in dict.fromkeys(states)) or "none"
    if not live:
        text += "; start one with `rota up`" + (f": {waiting} jobs are ready to run" if waiting else "")
    return Finding("nodes", live > 0 or not waiting, text)


def _settings(args: argparse.Namespace, settings: Settings) -> Finding:
    """The sources of the settings, the strongest last."""
    names = {f"{PREFIX}{name.upper()}" for name in settings.__struct_fields__}
    given = variables()
    sources = [given.get(CONFIG) or (FILE if Path(FILE).exists() else "")]
    sources += sorted(name for name in names if given.get(name))
    sources += ["--store"] if args.store else []
    changed = msgspec.structs.asdict(settings) != msgspec.structs.asdict(Settings())
    text = ", ".join(source for source in sources if source) or "defaults"
    return Finding("settings", True, text if changed or text == "defaults" else f"{text} (same as the defaults)")

"""Writes the reference in docs/cli.md from the parser, and docs/options.md from the table of options:
`python -m rota.cli.reference docs`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rota.cli.parser import build
from rota.model.option_table import CALLS, COMMANDS, JOBS, NAME, Option

MARK = "<!-- From here on made by `python -m rota.cli.reference docs` out of src/rota/cli/parser.py. -->\n"
TABLES = "<!-- From here on made by `python -m rota.cli.reference docs` out of src/rota/model/option_table.py. -->\n"
EVERYWHERE = ("help", "store", "json", "version")


def rewritten(page: str) -> str:
    """The page with a new reference; the text above the mark is kept."""
    return page.partition(MARK)[0] + MARK + reference()


def option_tables(page: str) -> str:
    """The page of options with its tables made anew."""
    kinds = (("Of every job", JOBS), ("Of commands", (NAME, *COMMANDS)), ("Of HTTP calls", (*CALLS, NAME)))
    lines = [line for title, options in kinds for line in ("", f"## {title}", "", *_options(options))]
    return page.partition(TABLES)[0] + TABLES + "\n".join(lines) + "\n"


def _options(options: Sequence[Option]) -> Iterator[str]:
    yield from ("| option | of | on the command line | meaning |", "|---|---|---|---|")
    for one in options:
        if not one.part_of:
            parts = [part for part in options if part.metavar and one.name in (part.name, part.part_of)]
            written = ", ".join(f"`{part.flag_at('order')} {part.metavar}`" for part in parts)
            yield f"| `{one.name}` | {', '.join(one.places)} | {written} | {one.help_with(one.default)} |"


def reference() -> str:
    parser = build()
    lines = ["", "## Options of every verb", "", *_table(action for action in options(parser))]
    for verb in verbs(parser):
        lines += ["", f"## {verb.prog}", "", verb.description or "", "", f"    {_usage(verb)}", ""]
        lines += _table(action for action in options(verb) if action.dest not in EVERYWHERE)
    return "\n".join(lines).rstrip() + "\n"


def verbs(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of all verbs, `job list` as well as `up`."""
    nested = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not nested:
        yield parser
    for action in nested:
        for inner in action.choices.values():
            yield from verbs(inner)


def options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if not isinstance(action, argparse._SubParsersAction)]


def _usage(verb: argparse.ArgumentParser) -> str:
    if verb.usage:
        return verb.usage
    positional = [action for action in options(verb) if not action.option_strings]
    forms = {"+": "{}...", "*": "[{}...]"}
    words = [forms.get(str(action.nargs), "{}").format(action.metavar) for action in positional]
    return " ".join([verb.prog, "[options]", *words])


def _table(actions: Iterator[argparse.Action]) -> list[str]:
    rows = [f"| `{_name(action)}` | {(action.help or '').replace('|', chr(92) + '|')} |" for action in actions]
    return ["| option | meaning |", "|---|---|", *rows] if rows else []


def _name(action: argparse.Action) -> str:
    words = action.metavar if isinstance(action.metavar, tuple) else (action.metavar or "",)
    names = ", ".join(action.option_strings)
    return " ".join(part for part in (names, *(words if action.nargs != 0 else ())) if part)


if __name__ == "__main__":
    for name, remake in (("cli.md", rewritten), ("options.md", option_tables)):
        path = Path(sys.argv[1]) / name
        path.write_text(remake(path.read_text("utf-8")), "utf-8")

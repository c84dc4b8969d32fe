"""Output for the screen: lines, tables, JSON; colour and rich only on a terminal.

Names, errors and reasons come from jobs and are untrusted: they must not control the terminal.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import Namespace
    from datetime import datetime

    from rota.model.times import Duration, Instant

# A cell is a text, or a text with the name of a style for terminals.
Cell = str | tuple[str, str]
STATE_STYLES = {
    "succeeded": "green", "failed": "red", "cancelled": "yellow", "running": "cyan", "live": "green", "dead": "red",
    "timed_out": "red", "crashed": "red", "interrupted": "yellow", "stopping": "yellow", "gone": "red", "silent": "red",
    "held": "yellow", "dropped": "red", "active": "green", "paused": "yellow", "broken": "red",
}  # fmt: skip
# On a narrow terminal: the columns to drop, first to last, and those to narrow; the widest column (a whole id; times
# are never cut, and neither are ids); the least width of the last column, which takes the rest; and the columns to drop
# if that was not enough.
SPARE = (
    "FEEDBACK", "ENDED/S", "BLOCKED", "SCHEDULED", "NODES", "BY", "SINCE",
    "PRI", "TRIES", "TOOK", "QUEUE", "STARTED", "VERSION", "ROLES", "NODE", "LAST", "ZONE", "UTC",
)  # fmt: skip
SHRINKING = ("TASK", "RULE", "JOB", "MATCHES", "KEY")
AT_LAST = ("REASON", "WHEN", "TASK", "STATE")
WIDEST = 36
TIMES = ("FIRE TIME", "UTC")
ENOUGH = 20
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UNPRINTABLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def safe(text: str) -> str:
    """One line without control characters: blanks become spaces, the others their escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else _escape(c) for c in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode()


def shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def complain(text: str) -> None:
    """The one line of an error."""
    sys.stdout.flush()
    print(f"rota: {safe(text)}", file=sys.stderr, flush=True)


def on_terminal() -> bool:
    return sys.stdout.isatty()


def state(name: str) -> Cell:
    return name, STATE_STYLES.get(name, "")


def document(value: Any) -> None:
    """The one document that `--json` prints."""
    import msgspec

    _write_json(msgspec.json.format(msgspec.json.encode(value), indent=2))


def answer(args: Namespace, wire: Any, text: str) -> int:
    """Prints what a verb has done: a document with --json, else a line. Returns its exit code."""
    if args.json:
        document(wire)
    else:
        print(safe(text))
    return 0


def listing(args: Namespace, wires: Iterable[Any], headers: Sequence[str], rows: Iterable[Sequence[Cell]]) -> int:
    """Prints what a verb has found: a document with --json, else a table. Returns its exit code."""
    if args.json:
        document(list(wires))
    else:
        table(headers, rows)
    return 0


def plain(value: Any) -> None:
    """A value for people and pipes: a text as it is, anything else as JSON. A terminal gets no control characters."""
    import msgspec

    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    lines = text.split("\n") if on_terminal() else []
    sys.stdout.write("\n".join(map(safe, lines)) if lines else text)
    sys.stdout.write("\n")


def json_line(value: Any) -> None:
    import msgspec

    _write_json(msgspec.json.encode(value))


def _write_json(body: bytes) -> None:
    if on_terminal():
        body = harmless_json(body.decode()).encode()
    sys.stdout.flush()
    sys.stdout.buffer.write(body + b"\n")
    sys.stdout.flush()


def harmless_json(text: str) -> str:
    """The same JSON; characters that act on a terminal are escaped."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def table(headers: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Columns for people. In a pipe: aligned plain text, never cut."""
    whole = Table(headers)
    whole.add(rows)
    whole.end()


class Table:
    """A table that is printed in portions, as its rows are found. The first portion decides the layout."""

    def __init__(self, headers: Sequence[str]) -> None:
        self._headers = headers
        self._print: _Plain | _Rich | None = None

    def add(self, rows: Iterable[Sequence[Cell]]) -> None:
        cells = [[(safe(text), style) for text, style in map(_pair, row)] for row in rows]
        if cells:
            self._draw(cells)

    def end(self) -> None:
        """A table without rows has its headers, too."""
        if self._print is None:
            self._draw([])

    def _draw(self, cells: _Cells) -> None:
        if self._print is None:
            self._print = _Rich(self._headers, cells) if on_terminal() else _Plain(self._headers, cells)
        self._print(cells)
        sys.stdout.flush()


_Cells = Sequence[Sequence[tuple[str, str]]]


class _Plain:
    def __init__(self, headers: Sequence[str], cells: _Cells) -> None:
        lines = [headers, *([text for text, _ in row] for row in cells)]
        self._widths = [max(len(line[column]) for line in lines) for column in range(len(headers))]
        self._line(headers)

    def __call__(self, cells: _Cells) -> None:
        for row in cells:
            self._line([text for text, _ in row])

    def _line(self, texts: Sequence[str]) -> None:
        print("  ".join(f"{text:{width}}" for text, width in zip(texts, self._widths, strict=True)).rstrip())


class _Rich:
    def __init__(self, headers: Sequence[str], cells: _Cells) -> None:
        from rich.cells import cell_len
        from rich.console import Console

        self._headers, self._begun = headers, False
        self._console = Console(highlight=False)
        self._widths = [max([len(header), *(cell_len(row[n][0]) for row in cells)]) for n, header in enumerate(headers)]
        rigid = {n for n in range(len(headers)) if any(_ID.fullmatch(row[n][0]) for row in cells)}
        self._kept = _fit(headers, self._widths, self._console.width, rigid)
        # A terminal that is narrower than an id breaks the line; it must not lose a part of the id.
        self._console.width = max(self._console.width, sum(self._widths[n] + 2 for n in self._kept) - 2)

    def __call__(self, cells: _Cells) -> None:
        from rich.table import Table as RichTable
        from rich.text import Text

        drawn = RichTable(
            box=None, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False, show_header=not self._begun
        )
        if self._begun:
            self._widen(cells)
        self._begun = True
        for n in self._kept:
            # Findings of the doctor are never cut; elsewhere `show` has the full text.
            header = self._headers[n]
            drawn.add_column(header, width=self._widths[n], no_wrap=header != "FOUND", overflow="ellipsis")
        for row in cells:
            drawn.add_row(*(Text(*row[n]) for n in self._kept))
        self._console.print(drawn)

    def _widen(self, cells: _Cells) -> None:
        """Takes the room that is left, rather than cut what comes later."""
        from rich.cells import cell_len

        room = self._console.width - sum(self._widths[n] + 2 for n in self._kept) + 2
        for n in self._kept:
            more = max(0, min(room, max(cell_len(row[n][0]) for row in cells) - self._widths[n]))
            self._widths[n] += more
            room -= more


def _pair(cell: Cell) -> tuple[str, str]:
    return (cell, "") if isinstance(cell, str) else cell


def _fit(headers: Sequence[str], widths: list[int], room: int, rigid: Collection[int] = ()) -> list[int]:
    """The columns that fit into the room; too wide ones become narrower, but never the rigid ones."""
    narrowed = [name not in TIMES for name in headers[:-1]]
    widths[:-1] = [min(width, WIDEST) if cut else width for width, cut in zip(widths, narrowed, strict=False)]
    kept = list(range(len(headers)))

    def excess(last: int = ENOUGH) -> int:
        *first, end = kept
        return sum(widths[n] + 2 for n in first) + (widths[end] if end in rigid else min(widths[end], last)) - room

    def drop(names: Iterable[str], last: int) -> None:
        for name in names:
            if name in headers and headers.index(name) in {*kept} - {*rigid} and excess(last) > 0:
                kept.remove(headers.index(name))

    drop(SPARE, ENOUGH)
    for name in SHRINKING:
        if name in headers and (column := headers.index(name)) in {*kept} - {*rigid}:
            widths[column] = max(widths[column] - max(excess(), 0), min(widths[column], ENOUGH // 2))
    drop(AT_LAST, ENOUGH // 2)
    if kept[-1] not in rigid:
        widths[kept[-1]] = max(1, min(widths[kept[-1]], room - sum(widths[n] + 2 for n in kept[:-1])))
    return kept


def facts(pairs: Iterable[tuple[str, Cell]]) -> None:
    """Name and value, one pair per line."""
    kept = [(name, *_pair(value)) for name, value in pairs if _pair(value)[0]]
    width = max(len(name) for name, _, _ in kept)
    if not on_terminal():
        for name, text, _ in kept:
            print(f"{name:{width}}  {safe(text)}")
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for name, text, style in kept:
        console.print(Text.assemble((f"{name:{width}}  ", "bold"), (safe(text), style)))


def block(title: str, text: str) -> None:
    """A text of several lines, each made safe."""
    print(f"\n{title}")
    for line in text.rstrip().split("\n"):
        print(f"  {safe(line)}")


def age(span: Duration) -> str:
    """A span to one unit."""
    seconds = max(span, 0) // 1_000_000
    for unit, size in (("d", 172_800), ("h", 7_200), ("m", 120)):
        if seconds >= size:
            return f"{seconds // {'d': 86_400, 'h': 3_600, 'm': 60}[unit]}{unit}"
    return f"{seconds}s"


def ago(given: Instant | datetime | None, now: Instant) -> str:
    if given is None:
        return ""
    from rota.model.times import as_instant

    moment = given if isinstance(given, int) else as_instant(given)
    return f"in {age(moment - now)}" if moment > now else f"{age(now - moment)} ago"


def when(moment: Instant | datetime | None, now: Instant) -> str:
    from rota.model.times import iso

    if moment is None:
        return ""
    return f"{iso(moment)[:23].replace('T', ' ')}Z ({ago(moment, now)})"

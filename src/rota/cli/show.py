"""What reaches the screen: lines, tables, JSON; colour and rich only on a terminal.

Names, errors and reasons come from jobs, so from anybody: nothing of them may act on the terminal.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

    from rota.model.times import Duration, Instant

# A cell is a text, or a text with the name of a style for terminals.
Cell = str | tuple[str, str]
STATE_STYLES = {
    "succeeded": "green", "failed": "red", "cancelled": "yellow", "running": "cyan", "live": "green", "dead": "red",
    "timed_out": "red", "crashed": "red", "interrupted": "yellow", "stopping": "yellow", "gone": "red", "silent": "red",
}  # fmt: skip
_UNPRINTABLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def safe(text: str) -> str:
    """One line that a terminal can only show: blanks become spaces, control characters their escapes."""
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


def json_line(value: Any) -> None:
    import msgspec

    _write_json(msgspec.json.encode(value))


def _write_json(body: bytes) -> None:
    if on_terminal():
        text = _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", body.decode())
        body = text.encode()
    sys.stdout.flush()
    sys.stdout.buffer.write(body + b"\n")
    sys.stdout.flush()


def table(headers: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Columns for people. In a pipe: aligned plain text, never cut."""
    if on_terminal():
        _rich_table(headers, rows)
        return
    cells = [list(headers), *([safe(_text(cell)) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    for row in cells:
        print("  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)).rstrip())


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell[0]


def _rich_table(headers: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    drawn = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False)
    for header in headers:
        # An id that is cut is of no use; everything else may give way.
        drawn.add_column(header, no_wrap=header in ("ID", "STATE"), overflow="fold")
    for row in rows:
        drawn.add_row(*(_styled(cell) for cell in row))
    Console(highlight=False, soft_wrap=False).print(drawn)


def _styled(cell: Cell) -> Text:
    from rich.text import Text

    text, style = (cell, "") if isinstance(cell, str) else cell
    return Text(safe(text), style=style)


def facts(pairs: Iterable[tuple[str, Cell]]) -> None:
    """Name and value, one pair per line."""
    kept = [(name, value) for name, value in pairs if _text(value)]
    width = max(len(name) for name, _ in kept)
    console = None
    if on_terminal():
        from rich.console import Console

        console = Console(highlight=False, soft_wrap=True)
    for name, value in kept:
        if console:
            console.print(_styled((f"{name:{width}}  ", "bold")) + _styled(value))
        else:
            print(f"{name:{width}}  {safe(_text(value))}")


def block(title: str, text: str) -> None:
    """A text of several lines, each made safe."""
    print(f"\n{title}")
    for line in text.rstrip().split("\n"):
        print(f"  {safe(line)}")


def age(span: Duration) -> str:
    """A span to one unit: what a person wants to know of it."""
    seconds = max(span, 0) // 1_000_000
    for unit, size in (("d", 172_800), ("h", 7_200), ("m", 120)):
        if seconds >= size:
            return f"{seconds // {'d': 86_400, 'h': 3_600, 'm': 60}[unit]}{unit}"
    return f"{seconds}s"


def ago(moment: Instant | None, now: Instant) -> str:
    if moment is None:
        return ""
    return f"in {age(moment - now)}" if moment > now else f"{age(now - moment)} ago"


def when(moment: Instant | None, now: Instant) -> str:
    from rota.model.times import iso

    if moment is None:
        return ""
    return f"{iso(moment)[:23].replace('T', ' ')}Z ({ago(moment, now)})"

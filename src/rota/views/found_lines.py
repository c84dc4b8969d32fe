"""Lines of output as people and programs get them."""

from __future__ import annotations

import base64

import msgspec

from rota.model.times import iso
from rota.store.found_lines import ContextLine, FoundLine, LineProgress
from rota.views.moments import Moment, moment


class ContextLineView(msgspec.Struct, omit_defaults=True):
    """A line beside one that was found. Bytes that are no UTF-8 are there as `base64` too; `more` is how many bytes the
    line has beyond what is given."""

    at: Moment
    stream: str
    text: str
    base64: str | None = None
    more: int = 0

    @classmethod
    def of(cls, line: ContextLine) -> ContextLineView:
        return cls(iso(line.at), line.stream, line.text, raw(line), line.more)


class FoundLineView(msgspec.Struct):
    """A line that was found. `number` and `offset` name it among the lines of its attempt."""

    job: str
    task: str
    user: str
    attempt: int
    fence: int
    number: int
    offset: int
    at: Moment
    stream: str
    level: str | None
    text: str
    base64: str | None
    more: int
    before: list[ContextLineView]
    after: list[ContextLineView]

    @classmethod
    def of(cls, line: FoundLine) -> FoundLineView:
        return cls(
            line.job_id, line.task, line.owner, line.attempt, line.fence, line.number, line.offset, iso(line.at),
            line.stream, line.level, line.text, raw(line), line.more,
            [ContextLineView.of(one) for one in line.before], [ContextLineView.of(one) for one in line.after],
        )  # fmt: skip


def raw(line: ContextLine) -> str | None:
    """The bytes, if they are no UTF-8."""
    try:
        line.body.decode()
    except UnicodeDecodeError:
        return base64.b64encode(line.body).decode()
    return None


class LineProgressView(msgspec.Struct):
    """How far a search has come, in bytes of output. All lines of after `back_to` were examined; null: all lines."""

    examined: int
    of: int
    back_to: Moment | None
    unreadable: int

    @classmethod
    def of_page(cls, progress: LineProgress) -> LineProgressView:
        return cls(progress.examined, progress.of, moment(progress.back_to), progress.unreadable)

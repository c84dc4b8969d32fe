"""The fields that queries know: one row each.

The parser's checks and suggestions, completion, the table in `docs/search.md`, and the lists that stores must translate
are made from these rows. `evaluate` says what each field is of a job.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

from rota.errors import InvalidInput, InvalidQuery
from rota.model.job import Kind
from rota.model.lifecycle import INITIAL, LIVE, TERMINAL, State
from rota.model.query.tree import How


class Type(StrEnum):
    TEXT = "text"
    WORD = "word"  # of a closed list
    NUMBER = "number"  # whole
    TIME = "time"
    SPAN = "span"
    ID = "id"  # given by its beginning or its end
    JSON = "json"


class Searched(StrEnum):
    """What is searched."""

    JOBS = "jobs"
    OUTPUT = "output"  # lines: the fields of lines, and those of the jobs that printed them


class Depth(StrEnum):
    """Whether a field is followed by a path."""

    NONE = "none"
    ALLOWED = "allowed"
    NEEDED = "needed"


class Field(NamedTuple):
    name: str
    type: Type
    meaning: str
    sortable: bool = False
    words: tuple[str, ...] = ()  # of a WORD
    groups: Mapping[str, tuple[str, ...]] = {}  # names for several words
    ordered: bool = False  # the words are, from the lowest
    many: bool = False  # it may have several values; one that fits is enough
    aliases: tuple[str, ...] = ()
    stored: bool = False  # completed from the values that the store knows
    depth: Depth = Depth.NONE
    of_line: bool = False

    @property
    def hows(self) -> frozenset[How]:
        """The comparisons that it knows."""
        return _ORDERS | {How.IS} if self.ordered else _HOWS[self.type]

    @property
    def comparable(self) -> bool:
        return How.BELOW in self.hows


_ORDERS = frozenset({How.BELOW, How.AT_MOST, How.ABOVE, How.AT_LEAST})
_TEXTS = frozenset({How.IS, How.LIKE, How.HAS})
_HOWS: Mapping[Type, frozenset[How]] = {
    Type.TEXT: _TEXTS,
    Type.WORD: frozenset({How.IS}),
    Type.ID: frozenset({How.IS}),
    Type.NUMBER: _ORDERS | {How.IS},
    Type.TIME: _ORDERS | {How.IS},
    Type.SPAN: _ORDERS | {How.IS},
    Type.JSON: _ORDERS | _TEXTS,
}

STREAMS = ("stdout", "stderr", "log")
LEVELS = ("debug", "info", "warning", "error", "critical")


def _states(of: frozenset[State]) -> tuple[str, ...]:
    return tuple(state.value for state in State if state in of)


STATES = {"live": _states(LIVE), "ended": _states(TERMINAL), "waiting": _states(INITIAL)}

_ROWS = (
    Field("id", Type.ID, "the id of the job: its beginning or its end, from 4 characters on", sortable=True),
    Field("name", Type.TEXT, "its name in its workflow", sortable=True),
    Field("state", Type.WORD, "its state", sortable=True, words=tuple(State), groups=STATES, aliases=("status",)),
    Field("kind", Type.WORD, "the kind of its work", sortable=True, words=tuple(Kind)),
    Field("queue", Type.TEXT, "its queue", sortable=True, stored=True),
    Field("task", Type.TEXT, "its task", sortable=True, stored=True),
    Field("user", Type.TEXT, "its user", sortable=True, stored=True, aliases=("owner",)),
    Field("label", Type.TEXT, "one of its labels", many=True, stored=True, aliases=("labels",)),
    Field("key", Type.TEXT, "its idempotency key", sortable=True),
    Field("workflow", Type.TEXT, "the id or the name of its workflow", many=True, stored=True),
    Field("schedule", Type.TEXT, "the schedule that made it", sortable=True, stored=True),
    Field("node", Type.TEXT, "the node that runs it or ran it last", sortable=True, stored=True),
    Field("priority", Type.NUMBER, "0 (most urgent) to 9", sortable=True),
    Field("created", Type.TIME, "when it was ordered", sortable=True),
    Field("due", Type.TIME, "when it may start, or might", sortable=True),
    Field("started", Type.TIME, "when its latest attempt started", sortable=True),
    Field("finished", Type.TIME, "when it ended", sortable=True, aliases=("ended",)),
    Field("expires", Type.TIME, "when it is given up if it has not started", sortable=True),
    Field("took", Type.SPAN, "from `started` to `finished`", sortable=True, aliases=("duration",)),
    Field("waited", Type.SPAN, "from `due` to `started`", sortable=True),
    Field("tries", Type.NUMBER, "its attempts so far", sortable=True, aliases=("attempts",)),
    Field("failures", Type.NUMBER, "its failed attempts since it was ordered or replayed", sortable=True),
    Field("crashes", Type.NUMBER, "attempts whose node or process died", sortable=True),
    Field("interruptions", Type.NUMBER, "attempts that ended because their node stopped", sortable=True),
    Field("replays", Type.NUMBER, "how often people ran it again", sortable=True),
    Field("reason", Type.TEXT, "why it is in its state"),
    Field("error", Type.TEXT, "the message of its last error"),
    Field("error_type", Type.TEXT, "the type of its last error, such as `builtins.ValueError`", sortable=True),
    Field("group", Type.TEXT, "the id of its group of errors", stored=True, aliases=("error_group",)),
    Field("exit", Type.NUMBER, "the exit code of its latest attempt that ended", sortable=True, aliases=("exit_code",)),
    Field("args", Type.JSON, "a value in its arguments", depth=Depth.NEEDED),
    Field("result", Type.JSON, "its result, or a value in it", depth=Depth.ALLOWED),
    Field("meta", Type.JSON, "a value that submit hooks added", depth=Depth.NEEDED),
    Field("at", Type.TIME, "when the line was printed", of_line=True),
    Field("stream", Type.WORD, "where it was printed", words=STREAMS, of_line=True),
    Field("level", Type.WORD, "the level of a line of the log", words=LEVELS, ordered=True, of_line=True),
    Field("attempt", Type.NUMBER, "the number of the attempt that printed it", of_line=True),
)
FIELDS: Mapping[str, Field] = {field.name: field for field in _ROWS}
JOB_FIELDS = tuple(field for field in _ROWS if not field.of_line)
LINE_FIELDS = tuple(field for field in _ROWS if field.of_line)
SORTABLE = tuple(field.name for field in _ROWS if field.sortable)
_NAMES = {name: field for field in _ROWS for name in (field.name, *field.aliases)}


def fields_of(searched: Searched) -> tuple[Field, ...]:
    return JOB_FIELDS if searched is Searched.JOBS else _ROWS


def find(name: str, searched: Searched) -> Field | None:
    """The field of this name or alias, whatever its case."""
    field = _NAMES.get(name.lower())
    return None if field is None or (field.of_line and searched is Searched.JOBS) else field


QUOTES = "; a text that is searched for goes in quotes"  # what a name with a colon may have been meant as


def unknown(name: str, searched: Searched) -> str:
    """What to say of a name that no field has."""
    said = f'there is no field "{name}"'
    if name.lower() in _NAMES:
        return f"{said} of jobs: it is one of lines, in searches of output"
    known = [one for one, field in _NAMES.items() if field in fields_of(searched)]
    if close := nearest(name.lower(), known):
        return f'{said}; did you mean "{close}"?'
    return f"{said}{QUOTES}"


def nearest(given: str, known: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(given[:100], list(known), n=1)), None)


class Sort(msgspec.Struct, frozen=True):
    """The order of a list. Missing values come last both ways; jobs of equal values are in the order of their ids."""

    field: str
    descending: bool = False


def sort(given: object) -> Sort:
    """Reads `finished`, or `-finished` for descending."""
    text = given if isinstance(given, str) else ""
    field = find(text.removeprefix("-"), Searched.JOBS)
    if field is None or not field.sortable:
        close = nearest(text.removeprefix("-").lower(), SORTABLE)
        hint = f"; did you mean {close}?" if close else ""
        raise InvalidInput("sort", given, f"one of {', '.join(SORTABLE)}, with - for descending{hint}")
    return Sort(field.name, text.startswith("-"))


def check_sort(given: Sort) -> None:
    """An order that came over the wire. Raises InvalidInput."""
    if given.field not in SORTABLE:
        raise InvalidInput("sort", given.field, f"one of {', '.join(SORTABLE)}")


def no_such_word(field: Field, given: str) -> str:
    known = (*field.words, *field.groups)
    if close := nearest(given.lower(), known):
        return f'no {field.name} is "{given[:100]}"; did you mean "{close}"?'
    return f'no {field.name} is "{given[:100]}"; there are {", ".join(known)}'


def field_of_term(name: str, searched: Searched) -> Field:
    """The field of a term that came over the wire: by its own name."""
    field = FIELDS.get(name)
    if field is None or (field.of_line and searched is Searched.JOBS):
        raise InvalidQuery(name, None, unknown(name[:100], searched))
    return field

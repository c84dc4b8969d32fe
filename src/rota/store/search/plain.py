"""The plain fields of a JobFilter as SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rota.model.lifecycle import State
from rota.store.search.translation import Dialect, Mark, translate
from rota.store.values import JobFilter

# Conditions on fields of JobFilter. `{}` is the value.
SHARED = {
    "queue": "j.queue = {}",
    "created_after": "j.created_at >= {}",
    "created_before": "j.created_at < {}",
}


class Plain(NamedTuple):
    """The words of a dialect for those that differ."""

    conditions: Mapping[str, str]
    values: Mapping[str, Callable[[Any], Any]]  # conversions of values


class Conditions(NamedTuple):
    """On the row `j`; all must hold. Unless they are exact, a job that fits them need not fit the query."""

    parts: list[str]
    exact: bool

    @property
    def text(self) -> str:
        """As one value: true or false."""
        return f"(({' AND '.join(self.parts) or 'true'}) IS TRUE)"


def conditions(query: JobFilter, plain: Plain, dialect: Dialect, mark: Mark) -> Conditions:
    parts = list(_parts(query, plain, mark))
    if query.where is None:
        return Conditions(parts, True)
    where = translate(query.where, dialect, mark)
    return Conditions([*parts, where.text], where.exact)


def _parts(query: JobFilter, plain: Plain, mark: Mark) -> Iterator[str]:
    if query.states is not None:
        yield _in_states(query.states)
    for name, text in {**SHARED, **plain.conditions}.items():
        if (given := getattr(query, name)) is not None:
            value = plain.values[name](given) if name in plain.values else given
            yield text.format(mark(value))


def _in_states(states: Sequence[State]) -> str:
    """Literals, not parameters: partial indexes of SQLite only match literals, and `=` where they say so."""
    names = [f"'{State(state).value}'" for state in states]
    return f"j.state = {names[0]}" if len(names) == 1 else f"j.state IN ({', '.join(names) or 'NULL'})"

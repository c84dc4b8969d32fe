"""What a search of output can make use of, before anything is read."""

from __future__ import annotations

import msgspec

from rota.lines.needs import in_order, needs
from rota.lines.words import Probe
from rota.model.query.evaluate import needed_of_job, needed_of_line, of_line, term_fits
from rota.model.query.normal import Leaf, fields_in, leaves, replaced
from rota.model.query.tree import EVERYTHING, NOTHING, All, Any, Condition, How, Term, Text
from rota.model.times import Instant
from rota.store.found_lines import LinePlace
from rota.store.search.plan import Span, needed_terms, span_of

# Terms on the time of a line that hold for a whole span if they hold at both its ends.
_STEADY = frozenset({How.BELOW, How.AT_MOST, How.ABOVE, How.AT_LEAST})
_OF_SEGMENT = frozenset({"user", "task"})


class Plan(msgspec.Struct, frozen=True):
    where: Condition
    place: LinePlace | None  # only lines of before this place
    span: Span  # all lines that fit are within
    tasks: tuple[str, ...] | None  # globs of the tasks that they are of; None: of any
    words: tuple[tuple[Probe, ...], ...]  # one of each group is in every segment with such a line

    @property
    def since(self) -> Instant | None:
        return self.span.low

    @property
    def until(self) -> Instant | None:
        """Lines are from before this instant."""
        ends = [] if self.span.high is None else [self.span.high + 1]
        return min([*ends, *([] if self.place is None else [self.place.at + 1])], default=None)

    @property
    def of_job(self) -> Condition:
        """What the job of every line must fit."""
        return needed_of_job(self.where)

    @property
    def selects_jobs(self) -> bool:
        """Whether a search for jobs first would say more than the user and the task of segments do."""
        return not fields_in(self.of_job) <= _OF_SEGMENT

    @property
    def asks_jobs(self) -> bool:
        """Whether a line that fits by itself may not fit for its job or attempt."""
        return any(not of_line(leaf) or _is(leaf, "attempt") for leaf in leaves(self.where))


def planned(where: Condition, place: LinePlace | None) -> Plan:
    span = span_of(list(needed_terms(where)), "at")
    return Plan(where, place, span, tasks_in(where), in_order(needs(where)))


def tasks_in(condition: Condition) -> tuple[str, ...] | None:
    """Globs: each line that fits is of a task that fits one of them. None: nothing is said about tasks."""
    match condition:
        case Term("task", How.IS | How.LIKE, str(value)) if condition.how is How.LIKE or not set("*?") & set(value):
            return (value,)
        case Any(of):
            found = [tasks_in(one) for one in of]
            return None if None in found else tuple(task for some in found for task in some or ())
        case All(of):
            return next((tasks for one in of if (tasks := tasks_in(one)) is not None), None)
        case _:
            return None


def left_of(condition: Condition, owner: str | None, task: str, times: Span) -> Condition:
    """What lines of this owner and task must fit by themselves, which were printed within these times. `owner`: None if
    it is not known. `NOTHING`: none fits."""

    def decided(leaf: Leaf) -> Condition:
        match leaf:
            case Text():
                return leaf
            case Term("task"):
                return EVERYTHING if term_fits(leaf, (task,)) else NOTHING
            case Term("user") if owner is not None:
                return EVERYTHING if term_fits(leaf, (owner,)) else NOTHING
            case Term("at", how, int()) if how in _STEADY:
                held = {term_fits(leaf, (at,)) for at in times}
                return leaf if len(held) == 2 else EVERYTHING if True in held else NOTHING
            case _:
                return leaf

    return needed_of_line(replaced(condition, decided))


def _is(leaf: Leaf, field: str) -> bool:
    return isinstance(leaf, Term) and leaf.field == field

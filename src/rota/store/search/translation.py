"""Makes SQL of conditions. The engines share the rules; their dialects word the expressions that differ.

Values are parameters, never text. Every term has two values: what is missing fits nothing but `IS None`, so a negation
drops no row. A leaf that SQL can't decide alone, such as a regular expression, becomes its *bound*: true where rows
might fit (false below a negation), so the SQL finds too much rather than too little, and `exact` is false.

Arguments of a job with secrets are decided by the oracle too, which sees stars: otherwise a search could ask for a
secret character by character.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any as Anything
from typing import NamedTuple

from rota.model.query.fields import FIELDS, Type
from rota.model.query.tree import All, Any, Condition, How, Not, Seek, Term, Text
from rota.model.query.words import folded

Mark = Callable[[Anything], str]  # the placeholder of a value
ORDERS = {How.BELOW: "<", How.AT_MOST: "<=", How.ABOVE: ">", How.AT_LEAST: ">="}


class Dialect(NamedTuple):
    fields: Mapping[str, str]  # expressions; NULL: missing
    labels: str  # EXISTS over the labels `l`, with {} for the condition
    workflows: str  # EXISTS over the name `w.name` of its workflow and the id,
    workflow_id: str
    member: str  # whether the job is in a workflow
    secretive: str  # whether it has secrets
    like: Callable[[str, str], str]  # a glob: of an expression and a placeholder
    pattern: Callable[[str], str]  # of a glob
    has: Callable[[str, str], str]  # whether it contains a text, in which ASCII letters are small
    text: Callable[[str], str]  # the placeholder of a text,
    number: Callable[[str], str]  # and of a number
    by_code_points: Callable[[str], str]  # a text, to be compared so
    json: Callable[[str, tuple[str, ...], Mark], Json | None]  # None: it can't follow this path


class Json(NamedTuple):
    """Expressions about the value at a path."""

    missing: str
    text: str  # NULL unless it is a text,
    number: str  # a number
    truth: str  # true or false
    number_mark: Callable[[int | float], str]
    truth_mark: Callable[[bool], str]


class Sql(NamedTuple):
    text: str
    exact: bool


def translate(condition: Condition, dialect: Dialect, mark: Mark) -> Sql:
    translator = _Translator(dialect, mark)
    text = translator.condition(condition, True)
    return Sql(text, translator.exact)


class _Translator:
    def __init__(self, dialect: Dialect, mark: Mark) -> None:
        self._dialect, self._mark = dialect, mark
        self.exact = True

    def condition(self, condition: Condition, widely: bool) -> str:
        """`widely`: rows that may not fit may pass; otherwise rows that may fit may be left out."""
        match condition:
            case All(of):
                return f"({' AND '.join(self.condition(one, widely) for one in of)})" if of else "true"
            case Any(of):
                return f"({' OR '.join(self.condition(one, widely) for one in of)})" if of else "false"
            case Not(of):
                return f"NOT {self.condition(of, not widely)}"
            case Text():
                return self._text(condition, widely)
            case Term(field="args"):
                return self._of_secretive(self._leaf(condition, widely), widely)
            case Term():
                return self._leaf(condition, widely)

    def _leaf(self, term: Term, widely: bool) -> str:
        found = self._term(term)
        return self._bound(widely) if found is None else f"(({found}) IS TRUE)"

    def _of_secretive(self, decided: str, widely: bool) -> str:
        """The bound, if the job has secrets."""
        bound = self._bound(widely)
        return f"CASE WHEN {self._dialect.secretive} THEN {bound} ELSE {decided} END"

    def _bound(self, widely: bool) -> str:
        self.exact = False
        return "true" if widely else "false"

    def _text(self, text: Text, widely: bool) -> str:
        """Borders of words are left to the oracle."""
        bound = self._bound(widely)
        if not widely or text.seek is Seek.REGEX:
            return bound
        part = self._dialect.text(self._mark(folded(text.text)))
        has, fields = self._dialect.has, self._dialect.fields
        places = [has(fields[name], part) for name in ("task", "error", "error_type")]
        places.append(self._dialect.labels.format(has("l.value", part)))
        return f"(({' OR '.join(places)}) IS TRUE)"

    def _term(self, term: Term) -> str | None:
        field, dialect = FIELDS[term.field], self._dialect
        if field.type is Type.JSON:
            return self._json(term)
        if term.field == "label":
            return self._many(term, dialect.labels, ("l.value",), dialect.labels.format("true"))
        if term.field == "workflow":
            return self._many(term, dialect.workflows, (dialect.workflow_id, "w.name"), dialect.member)
        if (column := dialect.fields.get(term.field)) is None:
            return None
        if term.value is None:
            return f"{column} IS NULL"
        if field.type is Type.ID:
            ends = (f"{term.value}*", f"*{term.value}")
            return " OR ".join(self._compared(column, Term("id", How.LIKE, end)) for end in ends)
        return self._compared(column, term)

    def _many(self, term: Term, exists: str, values: tuple[str, ...], there: str) -> str:
        if term.value is None:
            return f"NOT {there}"
        return exists.format(" OR ".join(self._compared(value, term) for value in values))

    def _compared(self, column: str, term: Term) -> str:
        value, dialect = term.value, self._dialect
        if isinstance(value, str):
            if term.how is How.LIKE:
                return dialect.like(column, dialect.text(self._mark(dialect.pattern(value))))
            if term.how is How.HAS:
                return dialect.has(column, dialect.text(self._mark(folded(value))))
            column = dialect.by_code_points(column) if term.how in ORDERS else column
            return f"{column} {ORDERS.get(term.how, '=')} {dialect.text(self._mark(value))}"
        return f"{column} {ORDERS.get(term.how, '=')} {dialect.number(self._mark(value))}"

    def _json(self, term: Term) -> str | None:
        found = self._dialect.json(self._dialect.fields[term.field], term.path, self._mark)
        if found is None:
            return None
        value = term.value
        if value is None:
            return found.missing
        if isinstance(value, bool):
            return f"{found.truth} = {found.truth_mark(value)}"
        if isinstance(value, str):
            return self._compared(found.text, term)
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return f"{found.number} {ORDERS.get(term.how, '=')} {found.number_mark(value)}"

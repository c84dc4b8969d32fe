"""Conditions on a field, made of an operator and the values that were written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from rota.errors import InvalidInput, InvalidQuery
from rota.model.query.fields import Field, Type, no_such_word
from rota.model.query.moments import TimeReader, WrittenTime
from rota.model.query.normal import all_of, any_of, opposite
from rota.model.query.tree import Condition, How, Term
from rota.model.times import duration

LONGEST_VALUE = 1_000
SHORTEST_ID = 4
LARGEST = 2**63 - 1
ID = re.compile(rf"[0-9a-f-]{{{SHORTEST_ID},36}}")
ORDERS = {"<": How.BELOW, "<=": How.AT_MOST, ">": How.ABOVE, ">=": How.AT_LEAST}
NEGATED = {"!=": "=", "!~": "~"}
NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_THERE = "*"


class Written(NamedTuple):
    """A value as it stands in the text."""

    text: str
    position: int  # from 1
    quoted: bool = False
    globs: bool = False  # it has * or ? that no backslash precedes,
    literal: bool = False  # and such that one does

    def wrong(self, problem: str) -> NoReturn:
        raise InvalidQuery(self.text, self.position, problem)


class Operand(NamedTuple):
    """What the values are compared with."""

    field: Field
    path: tuple[str, ...]
    times: TimeReader

    def term(self, how: How, value: str | float | bool | None) -> Condition:
        return Term(self.field.name, how, value, self.path)

    @property
    def missing(self) -> Condition:
        return self.term(How.IS, None)


def condition(operand: Operand, operator: str, values: Sequence[Written]) -> Condition:
    """`operator`: `:`, `=`, `~`, their opposites, or a comparison."""
    if operator in NEGATED:
        return opposite(condition(operand, NEGATED[operator], values))
    if operator in ORDERS:
        if len(values) > 1:
            values[1].wrong(f'"{operator}" takes one value')
        return _ordered(operand, ORDERS[operator], values[0])
    one: Callable[[Operand, Written], Condition] = {":": _fits, "=": _equals, "~": _has}[operator]
    return any_of(one(operand, value) for value in values)


def refusal(field: Field, operator: str) -> str | None:
    """Why the field can't be compared so."""
    if operator in ORDERS and not field.comparable:
        return f'"{field.name}" has no order: use {field.name}:… or {field.name}=…'
    if operator in ("~", "!~") and How.HAS not in field.hows:
        return f'"{field.name}" is no text: use {field.name}:…'
    return None


def _fits(operand: Operand, given: Written) -> Condition:
    if given.text == _THERE and given.globs:
        return opposite(operand.missing)
    low, dots, high = given.text.partition("..")
    if dots and not given.quoted and operand.field.comparable and _is_range(operand.field, low, high):
        return _range(operand, given, low, high)
    if given.globs and How.LIKE in operand.field.hows:
        if given.literal:
            given.wrong("a pattern can't hold a * or ? that means itself; leave the backslash out, or quote the whole")
        return operand.term(How.LIKE, re.sub(r"\*+", "*", given.text))
    if given.globs and operand.field.type is not Type.WORD:
        given.wrong(f'"{operand.field.name}" is no text: it takes no * or ?')
    if operand.field.type is Type.JSON and not given.quoted:
        both = [operand.term(How.IS, value) for value in _readings(given)]
        return any_of(both)
    return _equals(operand, given)


def _equals(operand: Operand, given: Written) -> Condition:
    if operand.field.type is Type.WORD:
        return any_of(operand.term(How.IS, word) for word in _words(operand.field, given))
    if operand.field.type is not Type.TIME:
        return operand.term(How.IS, _value(operand, given))
    moment = _moment(operand, given)
    if moment.relative:
        name = operand.field.name
        given.wrong(f"that is one instant, which nothing fits: write {name}>{given.text} or {name}<{given.text}")
    if moment.end is None:
        return operand.term(How.IS, moment.start)
    return all_of((operand.term(How.AT_LEAST, moment.start), operand.term(How.BELOW, moment.end)))


def _has(operand: Operand, given: Written) -> Condition:
    if not given.text:
        given.wrong("a text is missing")
    return operand.term(How.HAS, given.text)


def _ordered(operand: Operand, how: How, given: Written) -> Condition:
    if operand.field.type is Type.WORD:
        (word, *more) = _words(operand.field, given)
        if more:
            given.wrong(f'"{given.text}" is several words: it has no order')
        return operand.term(how, word)
    if operand.field.type is not Type.TIME:
        value = _value(operand, given)
        if value is None or isinstance(value, bool):
            given.wrong(f'"{given.text}" has no order: quote it, if the text is meant')
        return operand.term(how, value)
    return _by_moment(operand, how, _moment(operand, given))


def _by_moment(operand: Operand, how: How, moment: WrittenTime) -> Condition:
    """A day is compared as a whole; other times by their beginning."""
    if moment.day and moment.end is not None and how in (How.AT_MOST, How.ABOVE):
        return operand.term(How.BELOW if how is How.AT_MOST else How.AT_LEAST, moment.end)
    return operand.term(how, moment.start)


def _is_range(field: Field, low: str, high: str) -> bool:
    if field.type is not Type.JSON:
        return True
    return bool(low or high) and all(not end or NUMBER.fullmatch(end) for end in (low, high))


def _range(operand: Operand, given: Written, low: str, high: str) -> Condition:
    if not low and not high:
        given.wrong("a range needs a beginning or an end: 3..5, ..5 or 3..")
    ends = Written(low, given.position), Written(high, given.position + len(low) + 2)
    if low and high and _begins_late(operand, *ends):
        given.wrong("the range ends before it begins")
    hows = zip((How.AT_LEAST, How.AT_MOST), ends, strict=True)
    return all_of(_ordered(operand, how, end) for how, end in hows if end.text)


def _begins_late(operand: Operand, low: Written, high: Written) -> bool:
    if operand.field.type is Type.TIME:
        return _moment(operand, low).start > _moment(operand, high).start
    if operand.field.type is Type.WORD:
        words = operand.field.words
        return words.index(_words(operand.field, low)[0]) > words.index(_words(operand.field, high)[0])
    first, last = _value(operand, low), _value(operand, high)
    return isinstance(first, int | float) and isinstance(last, int | float) and first > last


def _words(field: Field, given: Written) -> tuple[str, ...]:
    word = given.text.lower()
    if word in field.words:
        return (word,)
    if word not in field.groups:
        given.wrong(no_such_word(field, given.text))
    return field.groups[word]


def _moment(operand: Operand, given: Written) -> WrittenTime:
    try:
        return operand.times.read(given.text)
    except InvalidInput as error:
        given.wrong(f'"{given.text[:100]}" is no time; expected {error.expected}')


def _value(operand: Operand, given: Written) -> str | int | float | bool | None:
    match operand.field.type:
        case Type.NUMBER:
            return _whole(operand.field, given)
        case Type.SPAN:
            return _span(given)
        case Type.ID:
            return _id(given)
        case Type.JSON if not given.quoted:
            return _readings(given)[0]
        case _:
            return given.text


def _readings(given: Written) -> list[str | int | float | bool | None]:
    """What an unquoted value in JSON may be: 7 is the number, and the text."""
    if given.text in _CONSTANTS:
        return [_CONSTANTS[given.text], given.text]
    if not NUMBER.fullmatch(given.text):
        return [given.text]
    exact = not set(given.text) & set(".eE")
    number = int(given.text) if exact and len(given.text) <= 20 else float(given.text)
    if not abs(number) <= (LARGEST if exact else 1.7976931348623157e308):
        given.wrong("a whole number has at most 64 bits, another one those of a double; quote it, if it is a text")
    if isinstance(number, float) and number.is_integer() and abs(number) <= LARGEST:
        number = int(number)
    return [number, given.text]


def _whole(field: Field, given: Written) -> int:
    if not _WHOLE.fullmatch(given.text) or abs(int(given.text)) > LARGEST:
        given.wrong(f'"{given.text[:100]}" is no whole number, as "{field.name}" is')
    return int(given.text)


def _span(given: Written) -> int:
    try:
        return 0 if given.text == "0" else duration(given.text)
    except InvalidInput as error:
        given.wrong(f'"{given.text[:100]}" is no duration; expected {error.expected}')


def _id(given: Written) -> str:
    text = given.text.lower()
    if not ID.fullmatch(text):
        given.wrong(
            f"an id has hexadecimal digits and hyphens; give {SHORTEST_ID} to 36 characters of its beginning or end"
        )
    return text

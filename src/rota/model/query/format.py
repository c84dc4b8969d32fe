"""A condition back to text: for people, for addresses of pages, for saved searches.

`parse(text_of(condition))` is the normal form of the condition. Only a condition near the limits may have a text that
is too long to be read back.
"""

from __future__ import annotations

import re

import msgspec

from rota.model.query.fields import FIELDS, Field, Type
from rota.model.query.normal import normal
from rota.model.query.tree import EVERYTHING, NOTHING, All, Any, Condition, How, Not, Seek, Term, Text
from rota.model.query.values import ORDERS
from rota.model.times import aware, iso, short

_SIGNS = {how: sign for sign, how in ORDERS.items()}
_PLAIN_SEGMENT = re.compile(r'[^\s.:=<>!~()",\\]+')
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_@/-][A-Za-z0-9_@/.:-]*")
_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})


def text_of(condition: Condition) -> str:
    form = normal(condition)
    return "" if form == EVERYTHING else _text(form)


def quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPED)}"'


def written(text: str) -> str:
    """A value as a person would write it after `field:`, with quotes where it needs them."""
    return text if _PLAIN_VALUE.fullmatch(text) and ".." not in text else quoted(text)


def _text(condition: Condition, inside: str = "") -> str:
    """`inside`: what it is a part of: "" nothing, "any", "all" or "not"."""
    match condition:
        case All() if condition == EVERYTHING:
            return "*"
        case Any() if condition == NOTHING:
            return "-*"
        case All(of):
            text = " ".join(_text(one, "all") for one in of)
            return f"({text})" if inside == "not" else text
        case Any(of):
            text = _list(of) or " OR ".join(_text(one, "any") for one in of)
            return f"({text})" if inside in ("all", "not") and " OR " in text else text
        case Not(of):
            if isinstance(of, Term) and of.value is None:
                return f"{_name(of)}:*"
            return f"-{_text(of, 'not')}"
        case Text(seek, text):
            return _seek(seek, text)
        case Term():
            return _term(condition)


def _list(of: tuple[Condition, ...]) -> str:
    """`state:failed,cancelled`, if all of them are equalities on one word."""
    terms = [one for one in of if isinstance(one, Term) and one.how is How.IS and isinstance(one.value, str)]
    same = {(one.field, one.path) for one in terms}
    if len(terms) < len(of) or len(same) != 1 or FIELDS[terms[0].field].type in (Type.JSON, Type.ID):
        return ""
    return f"{terms[0].field}:{','.join(written(str(one.value)) for one in terms)}"


def _seek(seek: Seek, text: str) -> str:
    match seek:
        case Seek.WORD:
            return text
        case Seek.PHRASE:
            return quoted(text)
        case Seek.PREFIX:
            return f"{quoted(text)}*"
        case Seek.REGEX:
            return f"/{_slashed(text)}/"


def _slashed(pattern: str) -> str:
    r"""`/` ends an expression, and is escaped; `\/` in it means the same."""
    return re.sub(r"\\.|/", lambda found: "\\/" if found[0] in ("/", "\\/") else found[0], pattern, flags=re.DOTALL)


def _name(term: Term) -> str:
    parts = (part if _PLAIN_SEGMENT.fullmatch(part) else quoted(part) for part in term.path)
    return ".".join((term.field, *parts))


def _term(term: Term) -> str:
    name, value, field = _name(term), term.value, FIELDS[term.field]
    if value is None:
        return f"-{name}:*"
    match term.how:
        case How.LIKE:
            return f"{name}:{_glob(str(value))}"
        case How.HAS:
            return f"{name}~{quoted(str(value))}"
        case How.IS if isinstance(value, str) and field.type is not Type.JSON:
            return f"{name}:{written(value)}"
        case How.IS:
            return f"{name}={_value(field, value, True)}"
        case _:
            return f"{name}{_SIGNS[term.how]}{_value(field, value, False)}"


def _glob(glob: str) -> str:
    text = re.sub(r'([\s(),"\\])', r"\\\1", glob)
    return "**" if text == "*" else text


def _value(field: Field, value: str | float | bool, exact: bool) -> str:
    if field.type is Type.TIME:
        return _instant(int(value), exact)
    if field.type is Type.SPAN:
        return short(int(value))
    if isinstance(value, str):
        return value if field.type is Type.WORD else quoted(value)
    return msgspec.json.encode(value).decode()


def _instant(moment: int, exact: bool) -> str:
    """In UTC. A fraction says that the instant itself is meant, not its second."""
    text = iso(aware(moment)).replace("+00:00", "Z")
    return text if exact else text.replace(".000000", "")

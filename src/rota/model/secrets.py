"""Secrets of jobs: which values are secret, and masking them wherever they appear.

A task or an order declares *names*: of arguments (dotted paths) and of environment variables. The values that an
attempt finds under them are masked by `***` in its output, errors, results and progress. A value is looked for in the
forms in which programs print it: as it is, as in JSON and in Python, percent-encoded, in base64; of a text with several
lines each line too. Texts of less than four characters, numbers of less than four digits, and true, false and null
can't be masked: they would hide half of what is said.

`Mask` finds every occurrence, also of secrets that overlap or begin alike. Occurrences that overlap become one `***`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from rota.errors import InvalidInput
from rota.model.http import HIDDEN
from rota.model.readers import printable

MOST_NAMES = 100
MOST_VALUES = 1_000  # of one attempt
LONGEST_NAME = 200
SHORTEST = 4  # of a text that is masked
# A longer value is looked for in pieces: what may be the beginning of one is held back.
LONGEST_PIECE = 4096
MOST_LINES = 200
# Base64 of a value inside a longer text has one of three forms, by its place; shorter ones are found by chance.
SHORTEST_INNER = 8
_MASK = HIDDEN.encode()
_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_WORDS = frozenset({"true", "false", "null", "none"})


class _Named(msgspec.Struct):
    secrets: list[str] = []


_named = msgspec.json.Decoder(_Named).decode


def names(given: object) -> tuple[str, ...]:
    """One name or several; sorted, each once."""
    if not isinstance(given, str | list | tuple | set | frozenset):
        raise InvalidInput("secrets", given, "a name of an argument or environment variable, or a list of them")
    found = sorted({_name(one) for one in ([given] if isinstance(given, str) else given)})
    if len(found) > MOST_NAMES:
        raise InvalidInput("secrets", given, f"at most {MOST_NAMES} names")
    return tuple(found)


def _name(given: object) -> str:
    expected = "the name of an argument such as password or login.token, or of an environment variable"
    return printable(given, "secrets", 1, LONGEST_NAME, expected)


def declared(spec: str) -> tuple[str, ...]:
    """The names in a specification. It may have been written by anyone."""
    if '"secrets"' not in spec:
        return ()
    try:
        return tuple(_named(spec).secrets)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return ()


# -- values -----------------------------------------------------------------------------------------------------------
def values_of(arguments: object, wanted: Iterable[str]) -> list[str]:
    """The texts and numbers below these names."""
    return [leaf for name in wanted for leaf in leaves(_found(arguments, name))]


def _found(arguments: object, name: str) -> object:
    """A name may have dots of its own, as keys of mappings may."""
    if not isinstance(arguments, Mapping):
        return None
    if name in arguments:
        return arguments[name]
    first, dot, rest = name.partition(".")
    return _found(arguments.get(first), rest) if dot else None


def leaves(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, bytes):
            yield one.decode("utf-8", "surrogateescape")
        elif isinstance(one, int | float) and not isinstance(one, bool):
            yield str(one)
        elif isinstance(one, Mapping):
            waiting += one.values()
        elif isinstance(one, list | tuple | set | frozenset):
            waiting += one


def can_be_masked(text: str) -> bool:
    plain = text.strip()
    return len(plain) >= SHORTEST and plain.lower() not in _WORDS


def forms(value: str) -> set[bytes]:
    """What to look for."""
    whole = value.strip()
    found = _forms(whole) if can_be_masked(whole) else set()
    lines = whole.splitlines()
    if len(lines) > 1:
        for line in lines[:MOST_LINES]:
            found |= _forms(line.strip()) if can_be_masked(line) else set()
    return {piece for form in found for piece in _pieces(form)}


def _forms(text: str) -> set[bytes]:
    raw = text.encode("utf-8", "surrogateescape" if _escaped(text) else "surrogatepass")
    escaped = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]}
    percent = {_percent(raw, b""), _percent(raw, b"/"), _percent(raw, b"").replace("%20", "+")}
    plain = {one.encode("utf-8", "surrogatepass") for one in escaped | percent}
    plain |= {one.replace(b"%2F", b"%2f").replace(b"%3D", b"%3d") for one in plain}
    return {raw, *plain, *_in_base64(raw)}


def _percent(raw: bytes, safe: bytes) -> str:
    """As in URLs and forms."""
    plain = _UNRESERVED + safe
    return "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in raw)


def _escaped(text: str) -> bool:
    return any("\udc80" <= char <= "\udcff" for char in text)


def _in_base64(raw: bytes) -> Iterator[bytes]:
    """Alone, and inside a longer text: without the characters at its ends that belong to its neighbours too."""
    for before in range(3):
        text = base64.b64encode(b"\0" * before + raw).rstrip(b"=")
        first = (0, 2, 3)[before]
        cut = (before + len(raw)) % 3
        inner = text[first : len(text) - (1 if cut else 0)]
        for form in {text, inner} if before == 0 else {inner}:
            if len(form) >= SHORTEST_INNER or form == text:
                yield form
                yield form.translate(bytes.maketrans(b"+/", b"-_"))


def _pieces(form: bytes) -> Iterator[bytes]:
    if len(form) <= LONGEST_PIECE:
        yield form
        return
    for start in range(0, len(form) - LONGEST_PIECE + 1, LONGEST_PIECE):
        yield form[start : start + LONGEST_PIECE]
    yield form[-LONGEST_PIECE:]


# -- masking ----------------------------------------------------------------------------------------------------------
Span = tuple[int, int]
Contain = Callable[[bytes], object]
MOST_MEMORY = 64 << 20  # of the machine that looks for all at once


class Mask:
    """The secrets of one attempt. `add` may be called while others look for them."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.patterns: tuple[bytes, ...] = ()
        self.longest = 0
        self._contain: Contain | None = None
        self._begin: re.Pattern[bytes] | None = None
        self._by_first: dict[bytes, list[bytes]] = {}
        self._values: frozenset[str] = frozenset()
        self.add(values)

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def add(self, values: Iterable[str]) -> None:
        """From now on these are masked too. Raises InvalidInput if there are too many."""
        new = {value for value in values if can_be_masked(value)} - self._values
        if not new:
            return
        every = self._values | new
        if len(every) > MOST_VALUES:
            raise InvalidInput("secrets", f"{len(every):,} values", f"at most {MOST_VALUES:,} of one attempt")
        found = {*self.patterns, *(form for value in new for form in forms(value))}
        self._values = every
        by_first: dict[bytes, list[bytes]] = {}
        for pattern in found:
            by_first.setdefault(pattern[:1], []).append(pattern)
        firsts = b"".join(b"\\x%02x" % first[0] for first in by_first)
        self._contain, self._begin, self._by_first = _finder(found), re.compile(b"[%b]" % firsts), by_first
        self.longest = max(map(len, found), default=0)
        self.patterns = tuple(sorted(found))

    def beginning(self, body: bytes) -> int:
        """Where a secret may begin that goes on behind the end."""
        if self._begin is None:
            return len(body)
        for found in self._begin.finditer(body, max(0, len(body) - self.longest + 1)):
            rest = body[found.start() :]
            if any(len(one) > len(rest) and one.startswith(rest) for one in self._by_first.get(rest[:1], ())):
                return found.start()
        return len(body)

    def spans(self, body: bytes) -> list[Span]:
        """Where secrets are, in order. Spans that overlap are one."""
        if self._contain is not None and not self._contain(body):
            return []
        found: list[Span] = []
        for pattern in self.patterns:
            at = body.find(pattern)
            while at >= 0:
                found.append((at, at + len(pattern)))
                at = body.find(pattern, at + 1)
        return united(found)

    def masked(self, body: bytes) -> bytes:
        spans = self.spans(body)
        if not spans:
            return body
        parts, end = [], 0
        for start, upto in spans:
            parts += [body[end:start], _MASK]
            end = upto
        return b"".join([*parts, body[end:]])

    def text(self, text: str) -> str:
        body = text.encode("utf-8", "surrogatepass")
        masked = self.masked(body)
        return text if masked is body else masked.decode("utf-8", "replace")

    def cut_text(self, text: str, mark: str) -> str:
        """A text that was cut where the mark stands, perhaps in the middle of a secret."""
        if mark not in text:
            return self.text(text)
        parts = [self.text(part).encode("utf-8", "surrogatepass") for part in text.split(mark)]
        for place in range(len(parts) - 1):
            parts[place] = self._without_beginning(parts[place])
            parts[place + 1] = self._without_end(parts[place + 1])
        return mark.join(part.decode("utf-8", "replace") for part in parts)

    def _without_beginning(self, part: bytes) -> bytes:
        """Without the beginning of a secret at its end."""
        sizes = ((pattern, size) for pattern in self.patterns for size in range(SHORTEST, len(pattern)))
        most = max((size for pattern, size in sizes if part.endswith(pattern[:size])), default=0)
        return part[: len(part) - most] + _MASK if most else part

    def _without_end(self, part: bytes) -> bytes:
        sizes = ((pattern, size) for pattern in self.patterns for size in range(SHORTEST, len(pattern)))
        most = max((size for pattern, size in sizes if part.startswith(pattern[-size:])), default=0)
        return _MASK + part[most:] if most else part

    def value(self, value: Any) -> Any:
        """A value of JSON, with its texts masked, and numbers that are secrets."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(one) for one in value]
        if isinstance(value, dict):
            return {self.text(name): self.value(one) for name, one in value.items()}
        if isinstance(value, int | float) and not isinstance(value, bool) and str(value) in self._values:
            return HIDDEN
        return value

    def json(self, text: str) -> str:
        """A text of JSON, which stays JSON."""
        if self.masked(text.encode("utf-8", "surrogatepass")) == text.encode("utf-8", "surrogatepass"):
            return text
        try:
            return msgspec.json.encode(self.value(msgspec.json.decode(text))).decode()
        except (msgspec.MsgspecError, RecursionError):
            return json.dumps(self.text(text))


def _finder(patterns: Iterable[bytes]) -> Contain | None:
    """Whether one of many patterns is there, at a cost that hardly depends on their number; without it they are looked
    for one by one."""
    import re2  # rarely needed

    options = re2.Options()
    options.encoding, options.max_mem, options.log_errors = re2.Options.Encoding.LATIN1, MOST_MEMORY, False
    text = b"|".join(b"".join(b"\\x%02x" % byte for byte in pattern) for pattern in patterns)
    try:
        found: Contain = re2.compile(text, options).search
    except re2.error:
        return None
    return found


def united(spans: Sequence[Span]) -> list[Span]:
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


# -- what people see of an order --------------------------------------------------------------------------------------
def shown(arguments: dict[str, Any], spec: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments and the specification of a job without its secrets: what stands under their names, and their values
    wherever else they appear."""
    wanted = spec.get("secrets")
    if not isinstance(wanted, list) or not wanted:
        return arguments, spec
    chosen = [one for one in wanted if isinstance(one, str)]
    places = (arguments, spec.get("env"), spec.get("headers"))
    mask = Mask()
    for place in places:
        mask.add(values_of(place, chosen)[:MOST_VALUES])
    clear = {name: value for name, value in spec.items() if name != "secrets"}
    for part in ("env", "headers"):
        if isinstance(clear.get(part), dict):
            clear[part] = _hidden(clear[part], chosen)
    return mask.value(_hidden(arguments, chosen)), mask.value(clear) | {"secrets": chosen}


def _hidden(arguments: dict[str, Any], wanted: Iterable[str]) -> dict[str, Any]:
    whole = dict(arguments)
    for name in wanted:
        if name in whole:
            whole[name] = HIDDEN
            continue
        first, dot, rest = name.partition(".")
        if dot and isinstance(whole.get(first), dict):
            whole[first] = _hidden(whole[first], [rest])
    return whole

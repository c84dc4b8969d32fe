"""Values by their annotations: what JSON an annotated type is read from, and how it is written.

msgspec reads and writes builtin types, dataclasses, its own structs, datetimes, UUIDs, decimals, enums, and all these
nested. pydantic reads and writes its models and other types of its own. It is used only if the program has imported it:
a model can't exist before. Paths are texts.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import PurePath
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec

STARS = "*" * 10  # for every secret in a model of pydantic
RULES = ("pydantic", "annotated_types")
VALUES: tuple[Any, ...] = (None, True, 1, 1.5, "", [], {})  # one of each kind that JSON has


class Hints(NamedTuple):
    """The annotations of a function, by parameter; that of its result is `return`."""

    found: dict[str, Any]
    unresolved: dict[str, str]  # texts with a name that is unknown at run time


def hints_of(function: Callable[..., Any]) -> Hints:
    """A name that does not resolve (imported for type checkers only) costs its own annotation and no other."""
    annotated = _annotated(function)
    try:
        return Hints(typing.get_type_hints(annotated, include_extras=True), {})
    except Exception:
        return _one_by_one(annotated)


def _annotated(function: Any) -> Any:
    """The function that has the annotations of a callable."""
    while isinstance(function, partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def _one_by_one(function: Callable[..., Any]) -> Hints:
    hints = Hints({}, {})
    for name, text in getattr(function, "__annotations__", {}).items():
        alone = SimpleNamespace(__annotations__={name: text})
        try:
            known = getattr(inspect.unwrap(function), "__globals__", {})
            hints.found[name] = typing.get_type_hints(alone, known, include_extras=True)[name]
        except Exception:
            hints.unresolved[name] = str(text)
    return hints


def readable(hint: Any) -> Any:
    """The hint, or one that stands for it, if JSON can be read into it; else Any."""
    ruled = _has_rules(hint)
    if not ruled and _decodes(hint):
        return hint
    adapter = _new_adapter(hint) if ruled or _has_own(hint) else None
    if adapter is None and ruled and _decodes(hint):
        return hint
    # Such as a union of two models. The new class is a custom type to msgspec, so `read` gets its values.
    return Any if adapter is None else _Adapted("Adapted", (), {"adapter": adapter})


class _Adapted(type):
    """The class of classes that stand for a hint that only pydantic can read."""

    adapter: Any

    def __instancecheck__(cls, instance: object) -> bool:
        return True  # msgspec asks for the type of what `read` returns


def unreadable(hint: Any) -> Any:
    """A class in the hint that no value from JSON is read into, or None."""
    try:
        found = msgspec.inspect.type_info(hint)
    except Exception:  # of names in the annotations of a class that don't resolve
        return None
    return next((kind for kind in _custom(found, set()) if not _takes_json(kind)), None)


def _custom(node: Any, seen: set[int]) -> Iterator[Any]:
    """The classes in a type that msgspec leaves to `read`."""
    if id(node) in seen:  # a class with fields of its own type
        return
    seen.add(id(node))
    if isinstance(node, msgspec.inspect.CustomType):
        yield node.cls
    for part in (getattr(node, name) for name in node.__struct_fields__):
        for one in part if isinstance(part, tuple) else (part,):
            if isinstance(one, msgspec.inspect.Type | msgspec.inspect.Field):
                yield from _custom(one, seen)


def _takes_json(kind: Any) -> bool:
    if isinstance(kind, _Adapted) or _is_path(kind):
        return True
    if _is_own(kind):
        return _adapter(kind) is not None
    try:
        return any(isinstance(value, kind) for value in VALUES)
    except TypeError:  # a protocol that can't be asked
        return False


def _is_path(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, PurePath)


def _decodes(hint: Any) -> bool:
    try:
        msgspec.json.Decoder(msgspec.defstruct("Probe", [("it", hint)]))
    except Exception:  # also of names in the annotations of a class that don't resolve
        return False
    return True


def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=read)


def read(kind: Any, value: Any) -> Any:
    """The hook of msgspec for types that it does not know: `value` came from JSON."""
    if isinstance(kind, _Adapted):
        return _validated(kind.adapter, value)
    if _is_own(kind) and (adapter := _adapter(kind)) is not None:
        return _validated(adapter, value)
    if _is_path(kind) and isinstance(value, str):
        return kind(value)
    if isinstance(value, typing.get_origin(kind) or kind):
        return value
    raise ValueError(f"Expected `{getattr(kind, '__name__', kind)}`, got `{type(value).__name__}`")


def written(value: Any) -> Any:
    """The hook of msgspec for values that it does not know: their JSON as builtin types."""
    kind: type = type(value)
    if _is_own(kind) and (adapter := _adapter(kind)) is not None:
        # As `read` takes it back: with the names that validation expects, without what is computed.
        plain = adapter.dump_python(value, mode="json", by_alias=True, round_trip=True)
        if _has_stars(plain):
            raise TypeError(f"a {kind.__qualname__} with a secret, which pydantic writes as stars")
        return plain
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"a {kind.__module__}.{kind.__qualname__} is no JSON")


def _has_stars(plain: Any) -> bool:
    if isinstance(plain, dict):
        return any(map(_has_stars, plain.values()))
    return any(map(_has_stars, plain)) if isinstance(plain, list) else plain == STARS


def json_types(hint: Any) -> tuple[str, ...]:
    """What JSON can be read into this hint, as the words of JSON Schema; empty if anything may be."""
    try:
        schema = msgspec.json.schema(hint, schema_hook=_schema)
    except TypeError:
        return ()
    choices = schema.get("anyOf", [schema])
    kinds = tuple("object" if "$ref" in choice else choice.get("type", "") for choice in choices)
    return kinds if all(isinstance(kind, str) and kind for kind in kinds) else ()


def _schema(kind: Any) -> dict[str, Any]:
    if _is_path(kind):
        return {"type": "string"}
    adapter = kind.adapter if isinstance(kind, _Adapted) else _adapter(kind) if _is_own(kind) else None
    if adapter is None:
        raise NotImplementedError
    found: dict[str, Any] = adapter.json_schema()
    return {"type": found["type"]} if "type" in found else {}


def _is_own(kind: Any) -> bool:
    """Whether pydantic can tell how to read this type."""
    return isinstance(kind, type) and hasattr(kind, "__get_pydantic_core_schema__")


def _has_rules(hint: Any) -> bool:
    """Whether the hint has rules that only pydantic checks, such as `Field(gt=3)` or `PositiveInt`. Not about bytes:
    pydantic reads them as UTF-8, and they are written as base64."""
    if any(type(one).__module__.partition(".")[0] in RULES for one in getattr(hint, "__metadata__", ())):
        return typing.get_args(hint)[0] is not bytes
    return any(map(_has_rules, typing.get_args(hint)))


def _has_own(hint: Any) -> bool:
    return _is_own(hint) or any(map(_has_own, typing.get_args(hint)))


def _new_adapter(hint: Any) -> Any:
    """The adapter of pydantic for a hint; None if the program does not use pydantic, or pydantic can't read it."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is None:
        return None
    try:
        return pydantic.TypeAdapter(hint)
    except pydantic.errors.PydanticSchemaGenerationError:
        return None


@cache
def _adapter(kind: type) -> Any:
    return _new_adapter(kind)


def _validated(adapter: Any, value: Any) -> Any:
    """Read as JSON, which strict models read more from than from Python values."""
    try:
        return adapter.validate_json(msgspec.json.encode(value))
    except ValueError as error:
        raise ValueError(_first(error)) from None


def _first(error: Any) -> str:
    """The first complaint of pydantic, in one line."""
    one = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(str(part) for part in one["loc"])
    return f"{one['msg']} ({where})" if where else str(one["msg"])

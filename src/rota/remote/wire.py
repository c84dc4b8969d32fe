"""Verbs of the store as messages: the arguments and the answer of each verb as JSON.

The signatures of the contract (`store.base`) are the definition. For each verb there is a struct with its parameters
and the type of its answer; decoders check every value against them. Two kinds of values need a form of their own:
errors in answers (`problems.ErrorBody`), and mappings whose keys are pairs, which become lists of pairs.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import Parameter, signature
from typing import Any, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from rota.errors import InvalidInput, RotaError
from rota.remote.problems import ErrorBody, as_body, from_body
from rota.store.base import Store
from rota.store.verbs import Verb, verbs

Convert = Callable[[Any], Any]


class Form(NamedTuple):
    """The type of a value on the wire, and how a value is converted for it and back. None: it goes as it is."""

    type: Any
    encode: Convert | None = None
    decode: Convert | None = None


class Call:
    """A verb as a message."""

    def __init__(self, verb: Verb, method: Callable[..., Any]) -> None:
        self.verb, self.name = verb, verb.name
        hints = get_type_hints(method)
        parameters = list(signature(method).parameters.values())[2:]  # without store and principal
        self.forms = {one.name: form_of(hints[one.name]) for one in parameters}
        self._converted = [name for name, form in self.forms.items() if form.encode is not None]
        self.names = [one.name for one in parameters]
        self.arguments = msgspec.defstruct(
            f"{verb.name.title().replace('_', '')}Call", [_field(one, self.forms[one.name]) for one in parameters],
            frozen=True, kw_only=True, forbid_unknown_fields=True, module=__name__,
        )  # fmt: skip
        self.answer = form_of(hints["return"])
        self._arguments_decoder = msgspec.json.Decoder(self.arguments)
        self._answer_decoder = msgspec.json.Decoder(self.answer.type)

    def encode_arguments(self, args: Sequence[Any], named: Mapping[str, Any]) -> bytes:
        given = {**dict(zip(self.names, args, strict=False)), **named}
        for name in self._converted:
            if name in given:
                given[name] = cast("Convert", self.forms[name].encode)(given[name])
        try:
            return _encoder.encode(given)
        except UnicodeEncodeError as error:  # a lone surrogate
            raise InvalidInput("text", str(error), "text that UTF-8 can carry") from None

    def decode_arguments(self, body: bytes) -> dict[str, Any]:
        """By name. Raises InvalidInput for arguments that the verb does not take."""
        try:
            given = self._arguments_decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
            if isinstance(problem.__cause__, InvalidInput):  # the check of a value that was built
                raise problem.__cause__ from None
            raise InvalidInput(f"arguments of {self.name}", _shown(body), f"what the verb takes: {problem}") from None
        return self.unpacked(given)

    def unpacked(self, given: msgspec.Struct) -> dict[str, Any]:
        """The arguments of a decoded message by name."""
        found = {name: getattr(given, name) for name in self.names}
        for name in self._converted:
            found[name] = cast("Convert", self.forms[name].decode)(found[name])
        return found

    def packed(self, answer: Any) -> Any:
        """An answer as it is encoded."""
        return answer if self.answer.encode is None else self.answer.encode(answer)

    def encode_answer(self, answer: Any) -> bytes:
        return _encoder.encode(self.packed(answer))

    def decode_answer(self, body: bytes) -> Any:
        found = self._answer_decoder.decode(body)
        return found if self.answer.decode is None else self.answer.decode(found)


_encoder = msgspec.json.Encoder()


def _shown(body: bytes) -> str:
    """The size of a body; its content may be secret."""
    return f"{len(body)} bytes"


def _field(parameter: Parameter, form: Form) -> tuple[str, Any] | tuple[str, Any, Any]:
    if parameter.default is Parameter.empty:
        return parameter.name, form.type
    return parameter.name, form.type, parameter.default


@cache
def calls() -> dict[str, Call]:
    """All verbs by name. Made once, on first use: the types of all verbs take some milliseconds."""
    return {name: Call(verb, getattr(Store, name)) for name, verb in verbs(Store).items()}


# -- types that JSON can't carry as they are -------------------------------------------------------------------------
def form_of(kind: Any) -> Form:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _union_form(kind, parts)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_form(kind, parts)
    if origin is list or origin is Sequence:
        return _list_form(kind, parts[0])
    return Form(kind)


def _union_form(kind: Any, parts: Sequence[Any]) -> Form:
    errors = [part for part in parts if isinstance(part, type) and issubclass(part, RotaError)]
    if not errors:
        return Form(kind)
    others = tuple(part for part in parts if part not in errors)
    return Form(
        Union[(*others, ErrorBody)],
        lambda value: as_body(value) if isinstance(value, RotaError) else value,
        lambda value: from_body(value) if isinstance(value, ErrorBody) else value,
    )


def _mapping_form(kind: Any, parts: Sequence[Any]) -> Form:
    if get_origin(parts[0]) is not tuple:
        return Form(kind)
    return Form(list[tuple[parts[0], parts[1]]], lambda value: list(value.items()), dict)  # type: ignore[valid-type]


def _list_form(kind: Any, part: Any) -> Form:
    inner = form_of(part)
    encode, decode = inner.encode, inner.decode
    if encode is None or decode is None:
        return Form(kind)
    return Form(
        list[inner.type],  # type: ignore[name-defined]
        lambda values: [encode(value) for value in values],
        lambda values: [decode(value) for value in values],
    )

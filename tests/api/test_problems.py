"""Every error of rota has an answer, and its fields reach the caller as plain values."""

from __future__ import annotations

import math

import msgspec

from rota import errors
from rota.api.problems import refusal_of
from rota.errors import RotaError
from rota.remote.problems import code_of


def kinds(base: type[RotaError] = RotaError) -> list[type[RotaError]]:
    return [kind for one in base.__subclasses__() if one.__module__ == "rota.errors" for kind in (one, *kinds(one))]


def test_every_error_for_callers_has_a_status_and_its_own_code() -> None:
    codes = set()
    for kind in kinds():
        error = kind.__new__(kind)
        error.args = ("told",)
        refusal = refusal_of(error)
        if kind in (errors.StoreError, errors.NotFaked):  # no fault of a caller
            assert refusal is None
        else:
            assert refusal is not None, kind
            assert 400 <= refusal.status < 500 or (refusal.status == 503 and refusal.headers["retry-after"])
            codes.add(refusal.code)
    assert {"invalid_input", "not_found", "key_conflict", "not_allowed", "store_unavailable"} <= codes
    assert len(codes) == len(kinds()) - 2


def test_fields_are_plain_values() -> None:
    for given in (None, 5, 2**70, 1.5, math.nan, "x" * 1000, "\ud800", object(), b"\xff", {"a": [1]}, [1]):
        refusal = refusal_of(errors.InvalidInput("weight", given, "a number"))
        assert refusal is not None
        body = msgspec.json.decode(msgspec.json.encode(refusal.body))
        assert (body["what"], body["expected"], body["status"]) == ("weight", "a number", 400)
        assert len(str(body["given"])) <= 200
    assert msgspec.json.decode(msgspec.json.encode(refusal_of(errors.KeyConflict("k", "j")).body)) == {  # type: ignore[union-attr]
        "code": "key_conflict",
        "title": "Conflict",
        "status": 409,
        "detail": "key 'k' was used before for another order (job j); use a new key",
        "key": "k",
        "job_id": "j",
    }


def test_codes() -> None:
    assert code_of(errors.InvalidInput) == "invalid_input"

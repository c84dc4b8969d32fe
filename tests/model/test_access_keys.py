"""Texts of access keys: 256 random bits, checked, hashed; and the life of a key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rota.clock import Chance
from rota.errors import InvalidInput
from rota.model.access import Permission, Role
from rota.model.access_keys import (
    AccessKey,
    KeyState,
    NewKey,
    check_new_key,
    key_hash,
    key_id,
    key_name,
    key_text,
)

ID = "0123456789ab"


def test_a_text_names_its_id_and_is_hard_to_guess() -> None:
    texts = {key_text(ID, Chance().secret()) for _ in range(100)}
    assert len(texts) == 100
    assert {key_id(text) for text in texts} == {ID}
    assert {len(text) for text in texts} == {len("rota_") + 12 + 1 + 43 + 6}
    assert len({key_hash(text) for text in texts}) == 100


def test_secrets_of_a_seed_are_repeatable_and_others_are_not() -> None:
    assert Chance(7).secret() == Chance(7).secret()
    assert Chance().secret() != Chance().secret()


@given(st.binary(min_size=32, max_size=32), st.integers(5, 66), st.sampled_from("0aZ"))
def test_a_changed_text_is_no_key(secret: bytes, place: int, other: str) -> None:
    text = key_text(ID, secret)
    changed = text[:place] + other + text[place + 1 :]
    if changed != text:
        with pytest.raises(InvalidInput):
            key_id(changed)


@pytest.mark.parametrize("wrong", ["", "rota_", None, 7, key_text(ID, b"x" * 32)[:-1], key_text(ID, b"x" * 32) + "\n"])
def test_the_refusal_does_not_show_the_text(wrong: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        key_id(wrong)
    assert "(hidden)" in str(caught.value)
    assert len(str(wrong)) < 10 or str(wrong).strip() not in str(caught.value)


def test_states() -> None:
    key = AccessKey(id=ID, user="ann", role=Role.VIEWER, created_at=1, created_by="local", expires_at=10)
    assert key.state(9) is KeyState.LIVE
    assert key.state(10) is KeyState.EXPIRED


def test_a_new_key_is_checked_part_by_part() -> None:
    right = NewKey(id=ID, hash=key_hash("x"), user="ann", role=Role.SUBMITTER, queues=("b", "a"))
    assert check_new_key(right).queues == ("a", "b")
    for wrong in (
        {"id": "x"}, {"hash": "x"}, {"user": "a b"}, {"queues": ("",)}, {"tasks": ("\n",)}, {"name": "\n"},
        {"extra": (Permission.WORK,)}, {"expires_at": -1},
    ):  # fmt: skip
        with pytest.raises(InvalidInput):
            check_new_key(replace(right, **wrong))


def test_names() -> None:
    assert key_name("Ann's laptop") == "Ann's laptop"
    for wrong in ("a\nb", "x" * 101, None):
        with pytest.raises(InvalidInput, match=r"^name"):
            key_name(wrong)

"""On whose behalf: a user sees what is theirs, rota's own services see all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rota.model.principal import LOCAL, LOCAL_USER, SYSTEM, Principal


@given(st.text())
def test_a_user_sees_only_their_own(user: str) -> None:
    assert Principal(user).sees == user, "also an empty name is a name, never 'all'"


@given(st.text())
def test_only_a_service_sees_all(user: str) -> None:
    assert Principal(user, system=True).sees is None


def test_the_two_built_in_principals() -> None:
    assert LOCAL.sees == LOCAL_USER == "local"
    assert SYSTEM.sees is None
    assert not LOCAL.system

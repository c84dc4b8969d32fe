from __future__ import annotations

from typing import Any

import pytest

import rota
from rota.errors import InvalidInput
from rota.tasks.modules import ImportFailed, import_named, imported, known_as


@pytest.mark.parametrize("given", ["shop.tasks", ["shop/tasks.py"], [7], [""], {"shop": 1}])
def test_names_of_modules_are_checked_where_they_are_given(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r'include: .* a list of module names such as \["shop.tasks"'):
        rota.App(include=given)


def test_a_module_is_included_once() -> None:
    assert rota.App(include=["json", "csv", "json"]).include == ("json", "csv")


def test_a_missing_module_is_named() -> None:
    with pytest.raises(ImportFailed, match=r"include: there is no module 'nowhere_at_all' in .* on the Python path"):
        import_named("nowhere_at_all.tasks", "include")
    assert not imported("nowhere_at_all")


def test_modules_are_known_by_their_names() -> None:
    assert known_as("shop.jobs") == "shop.jobs"
    assert known_as("") is None  # code without a module
    assert imported("rota.tasks.modules")

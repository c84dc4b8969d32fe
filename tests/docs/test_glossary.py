"""docs/glossary.md: each word once, in order, and no word names two classes."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENTRY = re.compile(r"^\*\*(?P<word>[a-z -]+)\*\*(?: \(`(?P<name>\w+)`\))?: [A-Z]", re.MULTILINE)
PAGE = (ROOT / "docs" / "glossary.md").read_text("utf-8")
ENTRIES = [(entry["word"], entry["name"]) for entry in ENTRY.finditer(PAGE)]


def classes() -> Counter[str]:
    """How many classes in src/rota have each name."""
    texts = (path.read_text("utf-8") for path in (ROOT / "src" / "rota").rglob("*.py"))
    return Counter(name for text in texts for name in re.findall(r"^class (\w+)", text, re.MULTILINE))


def squeezed(word: str) -> str:
    return re.sub(r"[ -]", "", word).lower()


def test_every_entry_is_read() -> None:
    assert len(ENTRIES) == len(re.findall(r"^\*\*", PAGE, re.MULTILINE)) > 50


def test_words_are_sorted_and_stand_once() -> None:
    words = [word for word, _ in ENTRIES]
    assert words == sorted(set(words))


def test_a_named_class_exists_once() -> None:
    found = classes()
    assert {name: found[name] for _, name in ENTRIES if name and found[name] != 1} == {}


def test_a_word_names_at_most_one_class() -> None:
    named: Counter[str] = Counter()
    for name, count in classes().items():
        named[name.lower()] += count
    assert {word: named[squeezed(word)] for word, _ in ENTRIES if named[squeezed(word)] > 1} == {}


def test_a_class_with_the_name_of_a_word_is_the_one_that_is_named() -> None:
    wrong = [(word, name) for word, name in ENTRIES if name and squeezed(word) != name.lower()]
    assert wrong == []

"""Tests of the pure model are judged by what they find, not by how long a busy machine takes."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("model", deadline=None)
settings.load_profile("model")

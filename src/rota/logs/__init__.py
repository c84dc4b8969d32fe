"""Remembers what jobs said."""

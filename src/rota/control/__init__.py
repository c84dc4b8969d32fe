"""Decides: one service per state. They never import `work`; both meet in the store."""

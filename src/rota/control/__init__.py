"""Decides: one service per shelf. They never import `work`; both meet in the store."""

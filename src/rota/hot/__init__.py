"""The hot tier: a fast lane between the nodes and the store, which may be slow, wrong, empty or gone at any moment.

The store stays the truth. Whatever the hot tier says is checked by the store before anything happens, and whatever it
forgets is found by a sweep. Without it, or while it is away, rota works as if it had never been there.
"""

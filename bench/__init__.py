"""How fast rota is, next to a floor of raw SQL on the same machine in the same minute: `python -m bench`.

Every figure is a ratio or has a goal that doesn't depend on the machine much. Runs of rota and of the floor take
turns, so that a busy neighbour disturbs both. What was found, and what was tried instead: docs/measurements.md.
"""

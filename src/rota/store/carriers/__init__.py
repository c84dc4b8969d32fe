"""Functions that carry verbs out on every store: written once, against the `Unit` of `carriers.unit`."""

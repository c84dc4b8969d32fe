"""Tasks as values: the catalogue of an app's functions, their context, and JSON of arguments and results."""

"""Sealed output: the format of its segments, the words that they contain, and the search for lines in them."""

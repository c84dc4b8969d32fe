"""Searches of output, on every store: `page` is the verb `find_lines`, made of other verbs.

A search reads *sources* (`sources`): segments, and output that is not sealed. Each gives *blocks* (`blocks`), the lines
of one segment or attempt that may fit, and says which time it has come back to. So at each moment all lines of after
some place are known, and the newest of them are the next ones of the page; their jobs (`jobs`) decide what a line alone
does not. `plan` reads from the condition what a store can make use of.
"""

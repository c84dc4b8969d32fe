"""The ways in which a hot tier goes wrong (`Plan.lying`). There are always flushes, old snapshots, and servers that are
away, asleep, full, mute or cut off from some, until all is healed. Besides:"""

from __future__ import annotations

HONEST = "honest"  # nothing else happens
GONE = "gone"  # when all is healed, the first server is away for ever
DEAF = "deaf"  # from then on some nodes hear nothing of it, and nobody tells them
CUT = "cut"  # from then on customers can't reach it
FLUSHED = "flushed"  # it loses all that it knows once more, when all is well
# What customers add is lost, for ever. Those that find jobs in the store can tell the heap.
FORGETFUL = "forgetful"
CLOSED = "closed"  # what anyone adds is lost, for ever: the sweep alone finds what is due
LIAR = "liar"  # everything may be a lie, for ever
STUBBORN = "stubborn"  # it names hundreds of jobs that never were, for ever, and nothing changes that

WAYS = (HONEST, GONE, DEAF, CUT, FLUSHED, FORGETFUL, CLOSED, LIAR, LIAR, LIAR, STUBBORN)  # as often
# Those under which the leader is stopped for a while, when all is well. Under the others nobody may be late for the
# leader's sake.
LEADERLESS = (HONEST, LIAR, STUBBORN)

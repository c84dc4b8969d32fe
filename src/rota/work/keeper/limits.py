"""Time limits, in seconds.

A process in uninterruptible sleep, or one that became another user's by setuid, can't be killed by us. Waiting for ever
would block a slot for ever; giving up early would report a tree as gone that isn't.
"""

SWEEP_LIMIT = 10.0  # for a warden to end its tree, then for the keeper to end the rest of it
WARDEN_LIMIT = 12.0  # for a warden that was told to kill; then it is killed itself
END_LIMIT = 30.0  # for the keeper to end everything, when the controller is gone
LAPSE_LIMIT = 1.0  # for the trees, after the deadline; then the controller is killed regardless

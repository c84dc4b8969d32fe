"""Patience, in seconds.

A process in uninterruptible sleep, or one that became another user's by setuid, can't be killed by us. To wait
for it for ever would block a slot for ever; to give up early would call a tree gone that isn't.
"""

SWEEP_LIMIT = 10.0  # a warden's with its tree, then the keeper's with the rest of the tree
WARDEN_LIMIT = 12.0  # the keeper's with a warden that was told to kill; then that is killed itself
END_LIMIT = 30.0  # the keeper's with everything, when the controller is gone
LAPSE_LIMIT = 1.0  # after the deadline, with the trees; then the controller is killed regardless

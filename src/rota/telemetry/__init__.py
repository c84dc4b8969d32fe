"""Events of a node, and the log lines made from them."""

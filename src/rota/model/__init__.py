"""Pure decisions and values: no I/O, no clock, no randomness of their own."""

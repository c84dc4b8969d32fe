"""Truth: the contract of a store (`base`) and its implementations."""

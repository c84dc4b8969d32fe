"""Truth: the contract of a store (`base`, with its parts) and its implementations."""

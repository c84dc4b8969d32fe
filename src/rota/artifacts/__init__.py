"""Programs and files: where their bytes are kept, and how a node gets and runs them."""

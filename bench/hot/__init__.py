"""What the hot tier brings: PostgreSQL with it and without it, in turns in one run."""

"""Does: claims jobs, runs attempts, reports what came of them. Never imports `control`; both meet in the store."""

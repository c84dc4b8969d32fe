"""Claims jobs, runs attempts, reports their ends. Never imports `control`; both meet in the store."""

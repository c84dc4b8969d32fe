"""One way to run per kind of task."""

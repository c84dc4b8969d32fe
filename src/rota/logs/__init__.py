"""Captures, bounds and stores the output of jobs."""

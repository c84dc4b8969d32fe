"""Clients of a store for one user: jobs, schedules and calendars, limits and gates. Handles and the CLI use them."""

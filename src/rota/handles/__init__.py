"""Handles for tasks, jobs, schedules and workflows, and the builders of schedules and workflows."""

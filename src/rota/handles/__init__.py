"""What users hold in their hands: handles for tasks, jobs, schedules and workflows, and builders that order them."""

"""Orders as JSON: single jobs and workflows, in files and over HTTP."""

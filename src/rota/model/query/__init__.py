"""The language in which people search jobs and output: `task:mail.* state:failed took>5m "connection refused"`."""

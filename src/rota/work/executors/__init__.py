"""One executor per kind of job."""

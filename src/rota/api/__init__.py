"""The HTTP API: one table of routes, and the application and server that are made from it."""

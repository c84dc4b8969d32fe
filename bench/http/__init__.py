"""The speed of the HTTP API, against an endpoint that only parses the same body."""

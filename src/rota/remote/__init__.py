"""The second transport of the store contract: verbs as calls to a server over HTTP."""

"""Times are not this folder's matter: the first use of a table makes it."""

from hypothesis import settings

settings.register_profile("lines", deadline=None)
settings.load_profile("lines")

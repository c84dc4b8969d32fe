"""The C parts of two modules: their Python parts import `enum` and cost 1 MB."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import socket
else:
    import _signal as signal
    import _socket as socket

__all__ = ["signal", "socket"]

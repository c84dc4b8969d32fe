"""The C halves of two modules, for their Python halves bring `enum` and 1 MB."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import socket
else:
    import _signal as signal
    import _socket as socket

__all__ = ["signal", "socket"]

"""A TCP proxy that breaks in the ways a network does.

It never lets a hole into a stream: TCP delivers everything in order or the connection ends. So what `freeze` holds back
is delivered after `thaw`, and a connection that lost a reply ends with `mend`.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from typing import Self

from tests.servers.ports import bound_socket

CHUNK = 64 * 1024
HELD = 256  # chunks per direction; then the sender has to wait, as with a full window
RESET = struct.pack("ii", 1, 0)  # linger for no time at all: the other side gets a reset, not an orderly end

Held = asyncio.Queue[tuple[float, bytes]]  # when to deliver what; nothing is the end of the stream


class Proxy:
    """For use within one event loop; `ThreadedProxy` has a loop of its own. Its verbs take effect at once."""

    def __init__(self, target_host: str, target_port: int) -> None:
        self.target = target_host, target_port
        self.delay = 0.0  # seconds that every byte is under way, each way
        self.port = 0  # stays the same from the first start on
        self.losing: bytes | None = None  # replies to requests with these bytes are lost
        self._listener: socket.socket | None = None
        self.connections: set[Connection] = set()
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.lost = asyncio.Event()

    async def start(self) -> None:
        self._listen()

    async def stop(self) -> None:
        self._refuse()
        tasks = [connection.task for connection in self.connections]
        self.kill_connections()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def cut(self) -> None:
        """Reset all connections and refuse new ones, until `mend`."""
        self._refuse()
        self.kill_connections()

    def mend(self) -> None:
        """End all faults but the delay. Connections that lost a reply are reset."""
        self.losing = None
        for connection in [each for each in self.connections if each.losing]:
            connection.kill()
        self.lost.clear()
        self._listen()
        self.thaw()

    def freeze(self) -> None:
        """Keep connections and accept new ones, take what they send, and deliver nothing, not even their end."""
        self.flowing.clear()

    def thaw(self) -> None:
        """Deliver what was held back, and go on."""
        self.flowing.set()

    def drop_replies(self, to: bytes = b"") -> None:
        """Deliver requests and lose the answers, until `mend`. With `to`, a connection loses its answers from the first
        request on that has these bytes in it (`b"COMMIT"`, say), so a client gets as far as that."""
        self.losing = to
        if not to:
            for connection in self.connections:
                connection.losing = True

    async def reply_lost(self) -> None:
        """Wait until an answer was lost: whatever it answers has been done."""
        await self.lost.wait()

    def kill_connections(self) -> None:
        """Reset them all. What was held back or under way is lost."""
        for connection in list(self.connections):
            connection.kill()

    def _listen(self) -> None:
        if self._listener:
            return
        self._listener = bound_socket(self.port or None)
        self._listener.setblocking(False)
        self._listener.listen(128)
        self.port = self._listener.getsockname()[1]
        asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)

    def _refuse(self) -> None:
        if self._listener:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except OSError:
            return  # gone before we came
        client.setblocking(False)
        connection = Connection(self, client)
        self.connections.add(connection)
        connection.task.add_done_callback(lambda _: self.connections.discard(connection))


class Connection:
    """Two directions; each is a queue between a task that receives and a task that delivers."""

    def __init__(self, proxy: Proxy, client: socket.socket) -> None:
        self.proxy = proxy
        self.losing = proxy.losing == b""
        self.killed = False
        self.task = asyncio.create_task(self._run(client))
        self.task.add_done_callback(lambda _: client.close())  # a task that is cancelled early never begins

    def kill(self) -> None:
        self.killed = True
        self.task.cancel()

    async def _run(self, client: socket.socket) -> None:
        with client, socket.socket() as server:
            orderly = False
            try:
                await self.proxy.flowing.wait()
                server.setblocking(False)
                await asyncio.get_running_loop().sock_connect(server, self.proxy.target)
                await self._relay(client, server)
                orderly = True
            except* OSError:
                pass  # one side is gone, and the other learns of it by the reset
            finally:
                if not orderly:
                    for each in (client, server):
                        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    async def _relay(self, client: socket.socket, server: socket.socket) -> None:
        async with asyncio.TaskGroup() as tasks:
            for source, target in ((client, server), (server, client)):
                target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                queue: Held = asyncio.Queue(HELD)
                tasks.create_task(self._receive(source, queue, replies=source is server))
                tasks.create_task(self._deliver(queue, target))

    async def _receive(self, source: socket.socket, queue: Held, replies: bool) -> None:
        loop = asyncio.get_running_loop()
        data, tail = b" ", b""
        while data:
            data = await loop.sock_recv(source, CHUNK)
            if not replies and self.proxy.losing:
                recent = tail + data  # the bytes may come in two pieces
                self.losing |= self.proxy.losing in recent
                tail = recent[-len(self.proxy.losing) :]
            if replies and self.losing:
                if data:
                    self.proxy.lost.set()
            else:
                await queue.put((loop.time() + self.proxy.delay, data))

    async def _deliver(self, queue: Held, target: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, data = await queue.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            await self.proxy.flowing.wait()
            if self.killed:
                return
            if not data:
                target.shutdown(socket.SHUT_WR)
                return
            await loop.sock_sendall(target, data)


class ThreadedProxy:
    """A proxy on a loop in a thread of its own, for code that is not async. Every call waits until it took effect."""

    def __init__(self, target_host: str, target_port: int) -> None:
        self.proxy = Proxy(target_host, target_port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    @property
    def port(self) -> int:
        return self.proxy.port

    @property
    def delay(self) -> float:
        return self.proxy.delay

    @delay.setter
    def delay(self, seconds: float) -> None:
        self.proxy.delay = seconds

    def start(self) -> None:
        self._thread.start()
        self._wait(self.proxy.start())

    def stop(self) -> None:
        """For good: a stopped one can't be started again."""
        self._wait(self.proxy.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def cut(self) -> None:
        self._call(self.proxy.cut)

    def mend(self) -> None:
        self._call(self.proxy.mend)

    def freeze(self) -> None:
        self._call(self.proxy.freeze)

    def thaw(self) -> None:
        self._call(self.proxy.thaw)

    def drop_replies(self, to: bytes = b"") -> None:
        self._call(lambda: self.proxy.drop_replies(to))

    def kill_connections(self) -> None:
        self._call(self.proxy.kill_connections)

    def reply_lost(self, timeout: float = 30.0) -> None:
        self._wait(self.proxy.reply_lost(), timeout)

    def _call(self, verb: Callable[[], None]) -> None:
        async def called() -> None:
            verb()

        self._wait(called())

    def _wait(self, work: Coroutine[None, None, None], timeout: float = 30.0) -> None:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            future.result(timeout)
        except TimeoutError:
            future.cancel()
            raise

"""A TCP proxy in front of PostgreSQL that does on request what networks do: cut, refuse, freeze, delay.

It runs in a thread of its own, so that a test, its event loop and other processes can all connect through it; every order
is in force when its call returns. It reads what clients send as messages of the protocol (no TLS), to be able to cut a
connection exactly at a COMMIT:

- "before": the server never hears of it, and rolls back;
- "after": the server has committed, and its answer is lost;
- "late": the client is cut off, the server gets the COMMIT only when `deliver` says so; until then the transaction is open.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from typing import Literal, Self, TypeVar
from urllib.parse import urlsplit, urlunsplit

When = Literal["before", "after", "late"]
T = TypeVar("T")

_NO_LINGER = struct.pack("ii", 1, 0)  # closing such a socket sends RST
_ASKS_FOR_ENCRYPTION = (80877103, 80877104)  # the client starts anew after the answer
_READY_FOR_QUERY = b"Z\0\0\0\5"  # then one byte: the end of every answer


class Proxy:
    """Use as a context manager: `with Proxy(server.url) as proxy: connect(proxy.url)`."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._upstream = (parts.hostname or "127.0.0.1", parts.port or 5432)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._links: set[_Link] = set()
        self._late: list[_Link] = []
        self._serving: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self._reserved = _bound(0)
        self.port: int = self._reserved.getsockname()[1]
        login = parts.netloc.rpartition("@")[0]
        self.url = urlunsplit(parts._replace(netloc=f"{login}@127.0.0.1:{self.port}"))
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.delay_s = 0.0
        self.order: When | None = None
        self.commits = 0  # how many were seen
        self._cut = threading.Event()
        self._goes_away = False

    def __enter__(self) -> Self:
        self._thread.start()
        self.accept()
        return self

    def __exit__(self, *_: object) -> None:
        self.refuse()
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._reserved.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # orders

    def cut(self) -> int:
        """Reset every connection; how many there were."""
        return self._do(self._cut_all)

    def refuse(self) -> None:
        """New connections are refused, as by a machine on which no server runs; those that are there stay."""
        self._do(self._close_listener)

    def accept(self) -> None:
        future = asyncio.run_coroutine_threadsafe(self._listen(), self._loop)
        future.result()

    def hold(self) -> None:
        """Nothing passes any more, in either direction; connections stay open and new ones get no answer."""
        self._do(self.flowing.clear)

    def release(self) -> None:
        self._do(self.flowing.set)

    def strand(self) -> None:
        """Nothing passes any more through the connections that are there, and nobody is told; new ones work. So do firewalls that
        have forgotten a connection, and machines that are gone."""
        self._do(self._strand_all)

    def delay(self, seconds: float) -> None:
        """Every message takes so much longer, in each direction."""
        self.delay_s = seconds

    def cut_at_commit(self, when: When, *, go_away: bool = False) -> None:
        """Cut off the connection that sends the next COMMIT, or a statement that leaves a mark and commits by itself. One order
        is one cut. `go_away`: cut off all others with it, and refuse new ones."""
        self._cut.clear()
        self._goes_away = go_away
        self.order = when

    def wait_for_cut(self, timeout_s: float = 30.0) -> None:
        """Until the order of `cut_at_commit` has been carried out."""
        assert self._cut.wait(timeout_s), "no COMMIT came"

    def deliver(self) -> None:
        """Pass on the COMMITs that are late, and wait until the server has answered."""
        future = asyncio.run_coroutine_threadsafe(self._deliver(), self._loop)
        future.result()

    # in the thread

    def _do(self, action: Callable[[], T]) -> T:
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(action())
            except BaseException as error:
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result()

    async def _listen(self) -> None:
        if self._listener is None:
            self._listener = await asyncio.start_server(self._serve, sock=self._reserved)

    def _close_listener(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            self._reserved = _bound(self.port)  # nobody else shall get the port meanwhile

    def _cut_all(self) -> int:
        links = list(self._links)
        for link in links:
            link.reset()
        return len(links)

    def _strand_all(self) -> None:
        for link in self._links:
            link.strand()

    async def _end(self) -> None:
        """Nothing is left open, and nobody is left waiting."""
        self.flowing.set()
        self._cut_all()
        for link in self._late:
            link.reset()
        await asyncio.gather(*self._serving)

    async def _deliver(self) -> None:
        late, self._late = self._late, []
        for link in late:
            await link.deliver()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            upstream = await asyncio.open_connection(*self._upstream)
        except OSError:
            _reset(writer)
            return
        link = _Link(self, (reader, writer), upstream)
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)

    def take_order(self) -> When | None:
        """What to do about this COMMIT."""
        self.commits += 1
        order, self.order = self.order, None
        return order

    def note_cut(self, late: "_Link | None" = None) -> None:
        if late is not None:
            self._late.append(late)
        if self._goes_away:
            self._close_listener()
            self._cut_all()
        self._cut.set()


_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Link:
    """One client's connection and the one to the server that belongs to it."""

    def __init__(self, proxy: Proxy, client: _Streams, server: _Streams) -> None:
        self._proxy = proxy
        self._from_client, self._to_client = client
        self._from_server, self._to_server = server
        self._stranded = False
        self._swallows = False  # the answer of the server does not reach the client
        self._late = b""
        self._is_idle = False  # no transaction is open
        self._marking: dict[bytes, bool] = {}  # prepared statements by name: do they leave a mark?

    async def run(self) -> None:
        """Until either side has gone."""
        pumps = [asyncio.create_task(self._upward()), asyncio.create_task(self._downward())]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        self._to_client.close()
        if self._late:
            self._proxy.note_cut(self)  # nobody else reads from the server any more
        else:
            self._to_server.close()

    def strand(self) -> None:
        self._stranded = True

    def reset(self) -> None:
        _reset(self._to_client)
        _reset(self._to_server)

    async def deliver(self) -> None:
        self._to_server.write(self._late)
        answer = b""
        with contextlib.suppress(ConnectionError):  # the server may have given up waiting for it
            while not _is_whole(answer) and (data := await self._from_server.read(65536)):
                answer += data
        self._to_server.close()

    async def _passage(self) -> None:
        if self._proxy.delay_s:
            await asyncio.sleep(self._proxy.delay_s)
        await self._proxy.flowing.wait()
        if self._stranded:
            await asyncio.Event().wait()

    async def _upward(self) -> None:
        messages = _messages(self._from_client)
        async for message in messages:
            commits = _commits(message)
            if self._marks(message):
                message += await _rest(messages)
                commits = True
            await self._passage()
            order = self._proxy.take_order() if commits else None
            if order == "before":
                self.reset()
                self._proxy.note_cut()
                return
            if order == "late":
                self._late = message
                _reset(self._to_client)
                return
            self._swallows = order == "after"
            self._to_server.write(message)
            await self._to_server.drain()

    def _marks(self, message: bytes) -> bool:
        """Is this the Bind of a statement that is a transaction by itself and leaves its mark?"""
        kind, names = message[:1], message[5:].split(b"\0", 2)
        if kind == b"P":
            self._marking[names[0]] = b'"mark" (' in names[1] or b".mark (" in names[1]
        return kind == b"B" and self._is_idle and self._marking.get(names[1], False)

    async def _downward(self) -> None:
        swallowed = last = b""
        while data := await self._from_server.read(65536):
            last = (last + data)[-6:]
            if _is_whole(last):
                self._is_idle = last[-1:] == b"I"
            await self._passage()
            if self._swallows:
                swallowed += data
                if _is_whole(swallowed):
                    self.reset()
                    self._proxy.note_cut()
                    return
            else:
                self._to_client.write(data)
                await self._to_client.drain()


async def _messages(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Whole messages of a client. Those at the start have no type."""
    try:
        starting = True
        while starting:
            head = await reader.readexactly(4)
            body = await reader.readexactly(int.from_bytes(head) - 4)
            starting = int.from_bytes(body[:4]) in _ASKS_FOR_ENCRYPTION
            yield head + body
        while True:
            head = await reader.readexactly(5)
            yield head + await reader.readexactly(int.from_bytes(head[1:]) - 4)
    except (asyncio.IncompleteReadError, ConnectionError):
        return


async def _rest(messages: AsyncIterator[bytes]) -> bytes:
    """What follows a Bind, up to its Sync."""
    rest, kind = b"", b""
    while kind != b"S":
        message = await anext(messages)
        rest, kind = rest + message, message[:1]
    return rest


def _commits(message: bytes) -> bool:
    """A simple query whose first or last word is COMMIT."""
    if message[:1] != b"Q":
        return False
    words = message[5:].rstrip(b"\0").replace(b";", b" ").lower().split()
    return bool(words) and b"commit" in (words[0], words[-1])


def _is_whole(answer: bytes) -> bool:
    return answer[-6:-1] == _READY_FOR_QUERY


def _reset(writer: asyncio.StreamWriter) -> None:
    end = writer.get_extra_info("socket")
    if not writer.transport.is_closing() and end is not None:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    writer.transport.abort()


def _bound(port: int) -> socket.socket:
    """A socket that has the port and does not listen: whoever connects is refused."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made

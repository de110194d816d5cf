"""The HTTP API in this process, beside a node: started after it, stopped before it.

`drain` tells everybody: /v1/health/ready turns 503, and whoever waits or listens is let go. `stop` then ends what is left.
Signals are the caller's.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

from mainspring.config import ServeSettings
from mainspring.errors import InvalidError, MainspringError
from mainspring.runtime.log import get_logger

if TYPE_CHECKING:
    import uvicorn

    from mainspring.node import Node
    from mainspring.verbs.engine import Engine

_log = get_logger("mainspring.server")

_GRACE_S = 5  # for requests under way; those that wait have been let go before
_KEEP_ALIVE_S = 75  # longer than clients and balancers keep theirs: they never write into a closed connection


class Serving:
    """One server. Made before anything is started, so that a taken port is told before anything else happens."""

    def __init__(self, settings: ServeSettings) -> None:
        check_installed()
        check_certificate(settings)
        self._socket = listen(settings)
        port: int = self._socket.getsockname()[1]
        self.settings = ServeSettings(
            host=settings.host,
            port=port,
            tls_cert=settings.tls_cert,
            tls_key=settings.tls_key,
            keys=settings.keys,
            url=settings.url,
        )
        self.first_key: str | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        return self.settings.address

    async def start(self, engine: "Engine", node: "Node") -> None:
        """Accept requests; returns when the first one could come."""
        from mainspring.access.keys import Keyring
        from mainspring.access.quotas import Quotas
        from mainspring.api.parts import Parts
        from mainspring.verbs.keys import first_key

        if self.settings.keys:
            self.first_key = await first_key(engine.store)
        self._quotas = Quotas(engine.store)
        await self._quotas.start()
        self._keyring = Keyring(engine.store) if self.settings.keys else None
        self.parts = Parts(engine, self._quotas, self._keyring, node.desk, self.settings.url)
        node.serves_workers()
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._server = self._make_server(started)
        self._task = asyncio.create_task(self._server.serve([self._socket]), name="mainspring-server")
        await asyncio.wait((self._task, started), return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            await self._task

    def drain(self) -> None:
        if self._task is not None:
            self.parts.stopping.set()

    async def stop(self) -> None:
        """After `drain`: nobody waits any more; what is under way may end."""
        if self._task is None:
            self.close()
            return
        self.drain()
        self._server.should_exit = True
        await self._task
        await self.parts.close()
        await self._quotas.stop()
        if self._keyring is not None:
            self._keyring.close()

    def close(self) -> None:
        """Let the port go, where nothing was started."""
        self._socket.close()

    def _make_server(self, started: "asyncio.Future[None]") -> "uvicorn.Server":
        import uvicorn

        from mainspring.api.app import make_api
        from mainspring.api.protocol import BoundedProtocol

        class Server(uvicorn.Server):
            @contextlib.contextmanager
            def capture_signals(self) -> Iterator[None]:
                yield

            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                started.set_result(None)

        settings = self.settings
        config = uvicorn.Config(
            make_api(self.parts),
            http=BoundedProtocol,
            ws="none",
            loop="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_GRACE_S,
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
        )
        return Server(config)


def is_installed() -> bool:
    """Is everything there that a server needs beside the base installation?"""
    return not _missing()


def check_installed() -> None:
    if missing := _missing():
        raise MainspringError(f"a server needs {missing}: install it with `pip install 'mainspring[server]'`")


def _missing() -> str | None:
    return next((name for name in ("uvicorn", "httptools", "msgpack") if find_spec(name) is None), None)


def check_certificate(settings: ServeSettings) -> None:
    """Say now what is wrong with it. A key with a passphrase is refused: nobody is there to type it."""
    if settings.tls_cert is None:
        return
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password="")
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise InvalidError("tls_cert", f"{settings.tls_cert} and its key cannot be used: {error}") from None


def listen(settings: ServeSettings) -> socket.socket:
    """The socket; a port that is taken is told in words."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((settings.host, settings.port))
        made.listen(2048)
        made.setblocking(False)
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            problem = f"{settings.port} is taken by another program on {settings.host}; choose another one"
            raise InvalidError("port", problem) from None
        raise InvalidError("host", f"cannot listen on {settings.host}:{settings.port}: {error.strerror}") from None
    return made

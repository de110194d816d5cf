"""The API put together: every operation behind one door, and what describes them at /v1/openapi.json and /v1/docs.

An ASGI application. What an operation takes and gives is ours from the first byte, so that the hot ones cost little and all of them
refuse alike.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence

from mainspring.access.roles import OPEN, PERMISSIONS
from mainspring.api.asgi import Application, Receive, Scope, Send
from mainspring.api.asking import Ask
from mainspring.api.bodies import GoneError
from mainspring.api.callers import Door
from mainspring.api.describing import DESCRIPTIONS, Describe
from mainspring.api.operations import Operation
from mainspring.api.parts import Parts
from mainspring.api.problems import TooLargeError, TooSlowError, reply_to
from mainspring.api.replies import Lingering
from mainspring.api.rooms import OPERATIONS
from mainspring.api.routing import Routes
from mainspring.errors import MainspringError

Serve = Callable[[Scope, Receive, dict[str, str]], Awaitable[Application]]


class Api:
    """Serves requests; `routes` say by what."""

    def __init__(self, routes: Routes[Serve]) -> None:
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = await self._reply(scope, receive)
        await reply(scope, receive, send)

    async def _reply(self, scope: Scope, receive: Receive) -> Application:
        try:
            serve, names = self._routes.find(scope["method"], scope["raw_path"].decode("latin-1"))
        except MainspringError as error:
            return reply_to(error)
        return await serve(scope, receive, names)


def make_api(parts: Parts, operations: Sequence[Operation] = OPERATIONS) -> Api:
    """Serve these operations with these parts."""
    check_permissions(operations)
    door = Door(parts.engine.audit)
    routes: Routes[Serve] = Routes()
    for operation in operations:
        routes.add(operation.method, operation.address, _serve(operation, parts, door))
    for address, describe in DESCRIPTIONS.items():
        routes.add("GET", address, _description(describe))
    return Api(routes)


def check_permissions(operations: Iterable[Operation]) -> None:
    """An operation that nobody decided about must not be served."""
    for operation in operations:
        if operation.id not in PERMISSIONS and operation.id not in OPEN:
            raise LookupError(f"{operation.id} has no row in access.roles: say who may ask for it")


def _serve(operation: Operation, parts: Parts, door: Door) -> Serve:
    async def serve(scope: Scope, receive: Receive, names: dict[str, str]) -> Application:
        return await answer(Ask(operation, parts, scope, receive, names), door)

    return serve


def _description(describe: Describe) -> Serve:
    async def serve(scope: Scope, _: Receive, __: dict[str, str]) -> Application:
        return describe(scope)

    return serve


async def answer(ask: Ask, door: Door) -> Application:
    """Let in, handle, and turn whatever goes wrong into a problem document."""
    try:
        await door.admit(ask)
        return await ask.operation.handler(ask)
    except GoneError:
        return _nobody
    except (TooLargeError, TooSlowError) as error:
        return Lingering(reply_to(error))
    except Exception as error:
        return reply_to(error)


async def _nobody(scope: Scope, receive: Receive, send: Send) -> None:
    """Whoever asked has left: there is nobody to answer."""

"""The API put together: every operation behind one door, served by Litestar, described at /v1/openapi.json and /v1/docs.

Litestar routes; what an operation takes and gives is ours, so that the hot ones cost little and all of them refuse alike.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from litestar import Litestar, Request, Response
from litestar.enums import ScopeType
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from mainspring.access.roles import OPEN, PERMISSIONS
from mainspring.api.asking import Ask
from mainspring.api.bodies import GoneError
from mainspring.api.callers import Door
from mainspring.api.describing import DESCRIPTIONS
from mainspring.api.operations import Operation
from mainspring.api.parts import Parts
from mainspring.api.problems import TooLargeError, TooSlowError, problem_of, reply_to
from mainspring.api.replies import Lingering, Reply
from mainspring.api.rooms import OPERATIONS

if TYPE_CHECKING:
    from litestar.types import Receive, Scope, Send


class Api(Litestar):
    """Routes addresses as they were sent: an escaped `/` belongs to a name, and names are unescaped once, by `Ask.path`."""

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:  # type: ignore[override]
        if scope["type"] == ScopeType.HTTP and b"%" in (raw := scope["raw_path"]):
            scope["path"] = raw.decode("ascii", "replace")
        await super().__call__(scope, receive, send)


def make_api(parts: Parts, operations: Sequence[Operation] = OPERATIONS) -> Litestar:
    """Serve these operations with these parts."""
    check_permissions(operations)
    door = Door(parts.engine.audit)
    return Api(
        route_handlers=[*(_route(operation, parts, door) for operation in operations), *DESCRIPTIONS],
        exception_handlers={Exception: _framework_problem},
        openapi_config=None,
        request_max_body_size=None,  # bodies are bounded where they are read
        logging_config=None,
    )


def check_permissions(operations: Iterable[Operation]) -> None:
    """An operation that nobody decided about must not be served."""
    for operation in operations:
        if operation.id not in PERMISSIONS and operation.id not in OPEN:
            raise LookupError(f"{operation.id} has no row in access.roles: say who may ask for it")


def _route(operation: Operation, parts: Parts, door: Door) -> HTTPRouteHandler:
    async def handle(request: Request[Any, Any, Any]) -> ASGIApp:
        return await answer(Ask(operation, parts, request.scope, request.receive), door)

    return HTTPRouteHandler(
        operation.address.replace("}", ":str}"),
        http_method=operation.method,  # type: ignore[arg-type]
        name=operation.id,
        status_code=200,
    )(handle)


async def answer(ask: Ask, door: Door) -> ASGIApp:
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


async def _nobody(scope: "Scope", receive: "Receive", send: "Send") -> None:
    """Whoever asked has left: there is nobody to answer."""


def _framework_problem(_: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """No such address, no such method: what never reached an operation."""
    reply: Reply = reply_to(error)
    headers = {name.decode(): value.decode("latin-1") for name, value in reply.headers}
    return Response(reply.body, status_code=reply.status, headers=headers, media_type=headers["content-type"])


__all__ = ["Api", "answer", "check_permissions", "make_api", "problem_of"]

"""What the API consists of: an `Operation` is one method of one address, with everything that serves and describes it.

A file per resource makes a `Room` and hangs its handlers into it:

    JOBS = Room("Jobs")

    @JOBS.get("/v1/jobs/{id}", "read_job", answer=d.JobDocument)
    async def read_job(ask: Ask) -> Reply:
        \"\"\"Read a job. What follows the first sentence is its description.\"\"\"
        return document(await ask.verbs.jobs.read(ask.path("id")))

`app.make_api` serves the operations, `openapi` and `page` describe them from the same values. Before a handler is called, the
caller is known, allowed to ask for this operation and within his rate; whatever a handler raises becomes a problem document.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mainspring.api.limits import MAX_BODY
from mainspring.api.replies import Reply

if TYPE_CHECKING:
    from mainspring.api.asking import Ask

Handler = Callable[["Ask"], Awaitable[Reply]]

JSON = "application/json"


class Content(Struct, frozen=True):
    """A body: what it is, and in which forms. `type` None: nothing, or no document of ours (an event stream, a page)."""

    type: Any = None
    media: tuple[str, ...] = (JSON,)
    description: str = ""


class Operation(Struct, frozen=True, kw_only=True):
    """`id`: the name in `access.roles.PERMISSIONS`. `query`: a Struct whose fields are the query's. `headers`: those of ours that
    it reads, with their descriptions. `answers`: status -> body. `problems`: statuses of problems that not all operations have."""

    id: str
    room: str
    method: str
    address: str
    handler: Handler
    body: Content | None = None
    body_limit: int = MAX_BODY
    body_optional: bool = False
    query: type | None = None
    headers: Mapping[str, str] = {}
    answers: Mapping[int, Content]
    problems: tuple[int, ...] = ()

    @property
    def summary(self) -> str:
        return self._text.partition("\n\n")[0].partition(". ")[0].rstrip(".")

    @property
    def description(self) -> str:
        return self._text

    @property
    def _text(self) -> str:
        lines = (self.handler.__doc__ or "").strip().splitlines()
        return "\n".join(line.strip() for line in lines)


class Room:
    """The operations of one resource."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.operations: list[Operation] = []

    def get(self, address: str, id: str, **about: Any) -> Callable[[Handler], Handler]:
        return self.add("GET", address, id, **about)

    def post(self, address: str, id: str, **about: Any) -> Callable[[Handler], Handler]:
        return self.add("POST", address, id, **about)

    def put(self, address: str, id: str, **about: Any) -> Callable[[Handler], Handler]:
        return self.add("PUT", address, id, **about)

    def patch(self, address: str, id: str, **about: Any) -> Callable[[Handler], Handler]:
        return self.add("PATCH", address, id, **about)

    def delete(self, address: str, id: str, **about: Any) -> Callable[[Handler], Handler]:
        return self.add("DELETE", address, id, **about)

    def add(
        self,
        method: str,
        address: str,
        id: str,
        *,
        body: Any = None,
        answer: Any = None,
        status: int | None = None,
        answers: Mapping[int, Content] | None = None,
        **about: Any,
    ) -> Callable[[Handler], Handler]:
        """`answer` and `status` (else 200, or 204 without an answer) say what `answers` says, where there is one of them."""
        said = answers or {status or (204 if answer is None else 200): Content(answer)}
        content = body if body is None or isinstance(body, Content) else Content(body)

        def hang(handler: Handler) -> Handler:
            self.operations.append(
                Operation(
                    id=id,
                    room=self.name,
                    method=method,
                    address=address,
                    handler=handler,
                    body=content,
                    answers=said,
                    **about,
                )
            )
            return handler

        return hang

"""One request, as handlers see it: who asks, for which tenant, and what the request says."""

from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qsl, unquote

from msgspec import ValidationError, convert

from mainspring.access.audit import Actor
from mainspring.access.keys import Caller
from mainspring.api.asgi import Receive, Scope
from mainspring.api.bodies import JSON, check_media, decode, read_body
from mainspring.api.limits import MAX_HEADER, MAX_QUERY
from mainspring.api.operations import Operation
from mainspring.api.parts import Parts
from mainspring.api.problems import refuse_decoding
from mainspring.core.job import DEFAULT_TENANT
from mainspring.errors import InvalidError

if TYPE_CHECKING:
    from mainspring.verbs.local import LocalVerbs

T = TypeVar("T")


class Ask:
    """`tenant` None: all of them. `caller` None where the server has no keys. `names`: parts of the address, as they were sent."""

    __slots__ = ("actor", "caller", "names", "operation", "parts", "receive", "scope", "tenant")

    actor: Actor
    caller: Caller | None
    tenant: str | None

    def __init__(
        self, operation: Operation, parts: Parts, scope: Scope, receive: Receive, names: dict[str, str]
    ) -> None:
        self.operation = operation
        self.parts = parts
        self.scope = scope
        self.receive = receive
        self.names = names

    @property
    def verbs(self) -> "LocalVerbs":
        return self.parts.engine.verbs(self.tenant, self.actor)

    @property
    def one_tenant(self) -> str:
        """The tenant of what is made: whoever acts for all of them makes things for the default one."""
        return self.tenant if self.tenant is not None else DEFAULT_TENANT

    @property
    def origin(self) -> str:
        """Where the request comes from, for people."""
        client = self.scope.get("client")
        return client[0] if client else "unknown"

    def header(self, name: str) -> str | None:
        """A header's value; None where it is not there. Said twice, it is refused: nobody shall guess which one counts."""
        wanted = name.lower().encode("ascii")
        values: list[bytes] = [value for given, value in self.scope["headers"] if given == wanted]
        if not values:
            return None
        if len(values) > 1:
            raise InvalidError(name, "was given twice")
        if len(values[0]) > MAX_HEADER:
            raise InvalidError(name, f"is longer than {MAX_HEADER} characters")
        try:
            return values[0].decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidError(name, "is not valid UTF-8") from None

    def path(self, name: str) -> str:
        """A part of the address. It is routed as it was sent, so that an escaped `/` is a part of a name."""
        try:
            return unquote(self.names[name], errors="strict")
        except UnicodeDecodeError:
            raise InvalidError(name, "is not valid UTF-8") from None

    def query(self, wanted: type[T]) -> T:
        """What stands behind the question mark, as what it should be."""
        known: frozenset[str] = frozenset(wanted.__struct_encode_fields__)  # type: ignore[attr-defined]
        try:
            return convert(self._pairs(known), wanted, strict=False)
        except ValidationError as error:
            refuse_decoding(error)

    async def raw(self, *media: str) -> tuple[str, bytes]:
        """The content type, one of these, and the body."""
        given = check_media(self.header("content-type"), *media)
        return given, await read_body(self.receive, self.header("content-length"), self.operation.body_limit)

    async def document(self, type: type[T], otherwise: T | None = None) -> T:
        """The JSON document in the body; `otherwise` where it is empty."""
        length = self.header("content-length")
        data = await read_body(self.receive, length, self.operation.body_limit)
        if not data and otherwise is not None:
            return otherwise
        check_media(self.header("content-type"), JSON)
        return decode(data, type)

    def _pairs(self, known: frozenset[str]) -> dict[str, str]:
        text: bytes = self.scope.get("query_string", b"")
        if len(text) > MAX_QUERY:
            raise InvalidError("query", f"is longer than {MAX_QUERY} characters")
        try:
            pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict")
        except (UnicodeDecodeError, ValueError):
            raise InvalidError("query", "is not valid UTF-8") from None
        found: dict[str, str] = {}
        for name, value in pairs:
            if name in found:
                raise InvalidError(name, "was given twice")
            if name not in known:
                raise InvalidError(name, f"is no parameter here; there are {', '.join(sorted(known)) or 'none'}")
            found[name] = value
        return found

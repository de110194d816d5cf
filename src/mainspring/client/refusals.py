"""Problem documents (RFC 9457) as our errors: whoever calls a server meets the same exceptions as over a store."""

from collections.abc import Mapping

import msgspec

from mainspring.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    LimitedError,
    MainspringError,
    NotFoundError,
    SecretsError,
    ServerError,
    SessionEndedError,
    StoreUnavailableError,
    StoreUncertainError,
    UnknownKeyError,
)
from mainspring.verbs.documents import Problem

_decode = msgspec.json.Decoder(Problem).decode

_PLAIN: dict[str, type[MainspringError]] = {
    "unknown-key": UnknownKeyError,
    "forbidden": ForbiddenError,
    "not-found": NotFoundError,
    "conflict": ConflictError,
    "secrets": SecretsError,
    "session-ended": SessionEndedError,
    "unavailable": StoreUnavailableError,
    "uncertain": StoreUncertainError,
}
_DEFAULT_RETRY_S = 1.0


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> MainspringError:
    """The error that an answer other than success stands for."""
    try:
        problem = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _without_document(status)
    return problem_error(problem, retry_after_s(headers))


def problem_error(problem: Problem, after_s: float | None = None) -> MainspringError:
    """Also for the problems of single items in the answer to a batch."""
    slug = problem.type.rpartition("/")[2]
    plain = _PLAIN.get(slug)
    if plain is not None:
        return plain(problem.detail)
    if slug == "limited":
        wait_s = problem.retry_after_s if problem.retry_after_s is not None else after_s
        detail = _without_field(problem)
        return LimitedError(problem.field or "requests", detail, _DEFAULT_RETRY_S if wait_s is None else wait_s)
    if slug in ("invalid", "too-large", "unsupported-media"):
        return InvalidError(problem.field or "request", _without_field(problem))
    return ServerError(f"the server answered {problem.status}: {problem.title}: {problem.detail}")


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds only: our servers, and the proxies before them, send no dates."""
    given = headers.get("Retry-After", "")
    return float(given) if given.isascii() and given.isdigit() else None


def _without_document(status: int) -> MainspringError:
    """From a proxy, say, or from something that is no Mainspring server at all: what it says of keys is not about ours."""
    if status == 503:
        return StoreUnavailableError("the server, or a proxy before it, answered 503")
    return ServerError(
        f"the server answered {status} without saying why: is it a Mainspring server, and the URL right?"
    )


def _without_field(problem: Problem) -> str:
    """Our errors put the field before the text by themselves."""
    return problem.detail.removeprefix(f"{problem.field}: ")

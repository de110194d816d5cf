"""Errors as problem documents (RFC 9457). Whatever goes wrong leaves the server as one of these, and says nothing of its insides.

`type` is a relative reference, `/v1/problems/<slug>`; the slugs are in `TITLES`. Our own errors carry the words that people need;
what nobody expected is logged, and answered without details.
"""

import math
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import NoReturn

from msgspec import ValidationError, json

from mainspring.access.rates import Buckets
from mainspring.api.replies import PROBLEM, Reply
from mainspring.api.routing import MethodError
from mainspring.core.decoding import refused
from mainspring.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    LimitedError,
    MainspringError,
    NotFoundError,
    SecretsError,
    SessionEndedError,
    StoreError,
    StoreUnavailableError,
    StoreUncertainError,
    UnknownKeyError,
)
from mainspring.runtime.log import get_logger
from mainspring.verbs.documents import Problem

_log = get_logger("mainspring.api")

#: slug -> what it says in a few words
TITLES = {
    "invalid": "The request is wrong",
    "not-found": "There is no such thing",
    "method": "This method is not for this address",
    "conflict": "This contradicts what is stored",
    "unknown-key": "The key is missing or not known",
    "forbidden": "The key does not allow this",
    "too-large": "The request is too large",
    "too-slow": "The request did not arrive",
    "limited": "Too much at once",
    "unsupported-media": "This content type is not understood",
    "unavailable": "Not possible for now",
    "uncertain": "It is not known whether this was done",
    "secrets": "Secrets cannot be used on this server",
    "session-ended": "The worker's session is over",
    "internal": "The server made a mistake",
}

_AGAIN_S = 1.0


class TooLargeError(MainspringError):
    """A body beyond its limit."""


class TooSlowError(MainspringError):
    """A body that stopped coming."""


class NotReadyError(MainspringError):
    """The server itself cannot do it now: it stops, or its store does not answer. Nothing was done."""


class MediaError(MainspringError):
    """A content type that this address does not take."""


#: Our errors, most special first: slug and status.
_KINDS: list[tuple[type[MainspringError], str, int]] = [
    (InvalidError, "invalid", 422),
    (NotFoundError, "not-found", 404),
    (MethodError, "method", 405),
    (ConflictError, "conflict", 409),
    (UnknownKeyError, "unknown-key", 401),
    (ForbiddenError, "forbidden", 403),
    (LimitedError, "limited", 429),
    (TooLargeError, "too-large", 413),
    (TooSlowError, "too-slow", 408),
    (MediaError, "unsupported-media", 415),
    (SessionEndedError, "session-ended", 410),
    (SecretsError, "secrets", 503),
    (NotReadyError, "unavailable", 503),
    (StoreUnavailableError, "unavailable", 503),
    (StoreUncertainError, "uncertain", 503),
]


def problem(slug: str, status: int, detail: str, *, field: str | None = None, after_s: float | None = None) -> Problem:
    return Problem(
        type=f"/v1/problems/{slug}",
        title=TITLES[slug],
        status=status,
        detail=_clean(detail),
        field=None if field is None else _clean(field),
        retry_after_s=after_s,
    )


def problem_of(error: BaseException) -> Problem:
    """Any error as a document. One that nobody expected is logged here, and only here."""
    for kind, slug, status in _KINDS:
        if isinstance(error, kind):
            field = getattr(error, "field", None)
            return problem(slug, status, _detail(error), field=field, after_s=_after(error, status))
    _log.error("a request failed in a way that nobody expected", exc_info=error)
    slug, status = ("unavailable", 503) if isinstance(error, StoreError) else ("internal", 500)
    return problem(slug, status, "the server's log says more", after_s=_after(error, status))


def reply_to(error: BaseException) -> Reply:
    return problem_reply(problem_of(error), {"allow": error.allow} if isinstance(error, MethodError) else {})


def problem_reply(told: Problem, headers: Mapping[str, str] = MappingProxyType({})) -> Reply:
    extra = dict(headers)
    if told.status == 401:
        extra["www-authenticate"] = 'Bearer realm="mainspring"'
    if told.retry_after_s is not None:
        extra["retry-after"] = str(max(1, math.ceil(told.retry_after_s)))
    return Reply(told.status, json.encode(told), PROBLEM, extra)


def refuse_decoding(error: ValidationError, where: str = "") -> NoReturn:
    """What msgspec says about a document, as an error of ours that names the field. `where`: the field it is in."""
    raise refused(error, where) from None


def _detail(error: MainspringError) -> str:
    """Our own words; where a store has passed on its driver's, the log has them and the answer does not."""
    for kind, words in _STORE_WORDS.items():
        if isinstance(error, kind):
            _tell(error)
            return words
    return str(error) or type(error).__name__


def _tell(error: MainspringError) -> None:
    """Log what a store says; during an outage every request meets it, and once in a while is enough."""
    if _rarely.take("", 1 / _TOLD_EVERY_S, 5.0, time.monotonic()) == 0:
        _log.warning("a request could not use the store", error=str(error))


_TOLD_EVERY_S = 5.0
_rarely = Buckets()


_STORE_WORDS: dict[type[MainspringError], str] = {
    StoreUnavailableError: "the store cannot be used for now; nothing was written, try again",
    StoreUncertainError: "the store went away while it was writing; look whether it was done, or repeat it with the same key",
}


def _after(error: BaseException, status: int) -> float | None:
    given = getattr(error, "retry_after_s", None)
    if given is not None:
        return float(given)
    return _AGAIN_S if status == 503 and not isinstance(error, StoreUncertainError | SecretsError) else None


def _clean(text: str) -> str:
    """What may be quoted from a request: no lone surrogates, no endless texts."""
    short = text if len(text) <= 2_000 else text[:2_000] + "…"
    return short.encode("utf-8", "backslashreplace").decode()

"""The type `http`: one request to a server, and its answer as the result.

What is sent is made by `execute.http.requests`, the connection by `execute.http.exchange`, what is kept of the answer by
`execute.http.bodies`. Here is the verdict: a status that was expected completes the job; one that may pass, and no answer at all,
fails it so that it is tried again (when the server says when, then); anything else fails it for good.
"""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NoReturn

from msgspec import Meta, Struct

from mainspring.core.objects import check_media
from mainspring.errors import InvalidError, MainspringError
from mainspring.execute.addresses import allowed
from mainspring.execute.context import Context
from mainspring.execute.http.bodies import glimpse, inline, read_start, save
from mainspring.execute.http.exchange import ExchangeError, Traffic, exchange, plain, trusted
from mainspring.execute.http.requests import Request, check_headers, check_url, prepare
from mainspring.execute.placeholders import fill_url
from mainspring.execute.signals import Retry
from mainspring.execute.types import JobType
from mainspring.wire import Usage

if TYPE_CHECKING:
    from aiohttp import ClientResponse

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
Statuses = Annotated[list[Annotated[int, Meta(ge=100, le=599)]], Meta(min_length=1)]

OUTPUT: Final = "response"
SUCCESS: Final = frozenset(range(200, 300))
PASSING: Final = frozenset({408, 425, 429, *range(500, 600)})

_LONGEST_WAIT_S = 86_400.0
_KEPT = ("Content-Type", "Content-Encoding", "ETag", "Last-Modified", "Location", "Link", "X-Request-Id")


class HttpResult(Struct, frozen=True, kw_only=True):
    """`body`: JSON or text. A body that is large, or neither, is the output `response` of `size` bytes, and `output` says so."""

    status: int
    headers: dict[str, str]
    body: Any = None
    output: str | None = None
    size: int = 0


class HttpError(MainspringError):
    """There was no answer, or one that may be another next time."""


class HttpRefusedError(HttpError):
    """The answer says no, and would again."""


async def http(
    ctx: Context,
    url: str,
    *,
    method: Method = "GET",
    headers: dict[str, str] = {},  # noqa: B006  (nobody changes it)
    body: Any = None,
    expect: Statuses | None = None,
    retry_on_status: Statuses | None = None,
    sign: str | None = None,
) -> HttpResult:
    """Send one request; the answer is the result.

    body: a text is sent as it is, anything else as JSON. expect: the statuses that are a success, else 200 to 299.
    retry_on_status: those after which the job is tried again, else 408, 425, 429 and 500 to 599. sign: the name of the secret
    that the request is signed with. `{secret:NAME}` in url, headers and body stands for a secret of the job.
    """
    request = prepare(url, method, headers, body, secret=ctx.secret, sign=sign, default_key=ctx.job_id)
    expected = SUCCESS if expect is None else frozenset(expect)
    passing = PASSING if retry_on_status is None else frozenset(retry_on_status)
    traffic = Traffic()
    try:
        async with exchange(request, allowed(), expected, traffic) as response:
            if response.status not in expected:
                await _refuse(request, response, may_pass=response.status in passing)
            return await _result(ctx, response)
    except ExchangeError as error:
        raise HttpError(f"{request.method} {request.shown}: {error}") from None
    finally:
        ctx._services.use(Usage(sent_bytes=traffic.sent, received_bytes=traffic.received))


async def _result(ctx: Context, response: "ClientResponse") -> HttpResult:
    start = await read_start(response)
    fits, body = inline(response, start)
    headers = plain(response.headers, _KEPT)
    if fits:
        return HttpResult(status=response.status, headers=headers, body=body, size=len(start))
    path = ctx.scratch / OUTPUT
    size = await save(response, start, path)
    await ctx.output(path, name=OUTPUT, media=_media(response.content_type))
    return HttpResult(status=response.status, headers=headers, output=OUTPUT, size=size)


def _media(said: str) -> str | None:
    """What the server says may be no media type, or longer than one of ours: that is no reason to fail."""
    try:
        return check_media(said)
    except InvalidError:
        return None


async def _refuse(request: Request, response: "ClientResponse", *, may_pass: bool) -> NoReturn:
    said = glimpse(await read_start(response))
    answer = f"{response.status} {response.reason or ''}".rstrip()
    text = f"{request.method} {request.shown} answered {answer}" + (f": {said}" if said else "")
    if not may_pass:
        raise HttpRefusedError(text)
    if (after_s := _retry_after_s(response.headers.get("Retry-After", ""))) is not None:
        raise Retry(after_s, text)
    raise HttpError(text)


def _retry_after_s(given: str) -> float | None:
    """Seconds, or a date."""
    if given.isascii() and given.isdigit():
        return min(float(given), _LONGEST_WAIT_S)
    try:
        wait_s = (parsedate_to_datetime(given) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(wait_s, 0.0), _LONGEST_WAIT_S)


def _check(
    url: str,
    headers: dict[str, str] | None = None,
    expect: list[int] | None = None,
    retry_on_status: list[int] | None = None,
    **_: object,
) -> None:
    """What can be known at submit, with something in the place of secrets."""
    if not url.startswith("{secret:"):
        check_url("arguments.url", fill_url(url, lambda _: "secret"))
    check_headers("arguments.headers", headers or {})
    if both := (SUCCESS if expect is None else set(expect)) & set(retry_on_status or ()):
        raise InvalidError(
            "arguments.retry_on_status", f"{min(both)} is expected, so it completes the job: leave it out"
        )


def _missing() -> str | None:
    try:
        import aiohttp  # noqa: F401  (rather now than in the first job, where the event loop would wait for it)
    except ImportError:
        return "it needs aiohttp: install Mainspring with the extra client, as in pip install 'mainspring[client]'"
    trusted()
    try:
        allowed()
    except InvalidError as error:
        return str(error)
    return None


TYPE = JobType("http", http, _missing, check=_check, give_up_on=(InvalidError, HttpRefusedError))

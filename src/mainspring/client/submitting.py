"""Many jobs to a server: drafts as lines, some thousand in a request, some requests at once.

A draft's arguments are encoded already and its options are shared by many, so a request is put together from bytes. What certainly
did not arrive is sent again. Where an answer got lost, the same jobs are sent again only if each of them has a key or is
unique, which makes that safe; else it is a `ServerError`, because nobody knows whether they were submitted.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence

from msgspec import MsgspecError, Struct, json

from mainspring.client.asking import tenant_header
from mainspring.client.refusals import problem_error
from mainspring.client.transport import Transport
from mainspring.core.draft import Draft
from mainspring.core.options import JobOptions, claims
from mainspring.core.options_json import options_document
from mainspring.errors import ConflictError, LimitedError, MainspringError, ServerError, StoreUnavailableError
from mainspring.store.contract import Inserted
from mainspring.verbs.documents import SubmittedItem
from mainspring.verbs.drafts import for_tenant

LINES = "application/x-ndjson"
CHUNK = 4000  # jobs in one request
MOST_BYTES = 900_000  # in one request, unless one job has more
IN_FLIGHT = 3

_PATH = "/v1/jobs/batch"
_TIMEOUT_S = 60.0

_decode = json.Decoder(SubmittedItem).decode_lines


class Batch(Struct, frozen=True):
    """One request: so many jobs of one tenant. `repeatable`: each of them has a key or is unique."""

    tenant: str | None
    body: bytes
    count: int
    repeatable: bool


class Frame(Struct, frozen=True):
    """What stands around the arguments of every job with the same kind and options."""

    tenant: str | None
    head: bytes
    tail: bytes
    claims: bool


async def submit(transport: Transport, drafts: Sequence[Draft], tenant: str | None) -> list[Inserted]:
    """One answer per draft, in order; a conflict is an answer. Any other refusal is raised, and the rest is submitted."""
    items: list[SubmittedItem] = []
    flying: deque[asyncio.Task[list[SubmittedItem]]] = deque()
    try:
        for batch in batches(drafts, tenant):
            flying.append(asyncio.create_task(_send(transport, batch)))
            if len(flying) >= IN_FLIGHT:
                items += await flying.popleft()
        while flying:
            items += await flying.popleft()
    except MainspringError as error:
        rest = await asyncio.gather(*flying, return_exceptions=True)
        more = sum(len(answer) for answer in rest if isinstance(answer, list))
        raise _counted(error, len(items) + more, len(drafts)) from error
    finally:
        for task in flying:
            task.cancel()
    return _inserted(items)


def batches(drafts: Sequence[Draft], tenant: str | None) -> Iterator[Batch]:
    """The requests, made one by one, so that the next is written while others are on their way."""
    frames: dict[tuple[str, int], Frame] = {}  # by the identity of the options, which the drafts keep alive
    lines: list[bytes] = []
    size, around, repeatable = 0, None, True
    for draft in drafts:
        name = (draft.kind, id(draft.options))
        frame = frames.get(name) or frames.setdefault(name, _frame(draft.kind, draft.options, tenant))
        line = frame.head + draft.arguments + frame.tail
        if lines and (len(lines) == CHUNK or size + len(line) > MOST_BYTES or frame.tenant != around):
            yield Batch(around, b"".join(lines), len(lines), repeatable)
            lines, size, repeatable = [], 0, True
        lines.append(line)
        size, around, repeatable = size + len(line), frame.tenant, repeatable and frame.claims
    if lines:
        yield Batch(around, b"".join(lines), len(lines), repeatable)


def _frame(kind: str, options: JobOptions, tenant: str | None) -> Frame:
    given = options_document(for_tenant(options, tenant or None))
    meant = given.pop("tenant", tenant)
    tail = b',"options":' + json.encode(given) + b"}\n" if given else b"}\n"
    return Frame(meant, b'{"kind":' + json.encode(kind) + b',"arguments":', tail, claims(options))


async def _send(transport: Transport, batch: Batch) -> list[SubmittedItem]:
    reply = await transport.request(
        "POST",
        _PATH,
        body=batch.body,
        content_type=LINES,
        headers=tenant_header(batch.tenant),
        timeout_s=_TIMEOUT_S,
        repeatable=batch.repeatable,
    )
    try:
        items = _decode(reply.body)
    except (MsgspecError, UnicodeDecodeError) as error:
        raise ServerError(f"the answer to a submit cannot be read: {error}") from None
    if len(items) != batch.count:
        raise ServerError(f"{len(items)} answers came to {batch.count} jobs")
    return items


def _inserted(items: list[SubmittedItem]) -> list[Inserted]:
    fromhex = bytes.fromhex
    return [
        _refused(item, items) if item.id is None else Inserted(fromhex(item.id.replace("-", "")), item.existed)
        for item in items
    ]


def _refused(item: SubmittedItem, items: list[SubmittedItem]) -> Inserted:
    if item.problem is None:
        raise ServerError("an answer to a submit has neither an id nor a problem")
    error = problem_error(item.problem)
    if isinstance(error, ConflictError):
        return Inserted(b"", conflict=True)
    raise _counted(error, sum(other.id is not None for other in items), len(items))


def _counted(error: MainspringError, accepted: int, total: int) -> MainspringError:
    """The same error, saying what became of the jobs."""
    if isinstance(error, ServerError) and error.uncertain:
        known = f"{accepted} of {total} jobs were accepted; whether the others were is not known"
        return ServerError(f"{error} ({known}; jobs with a key can be submitted again safely)")
    told = f"({accepted} of {total} jobs were accepted before)"
    if accepted == 0:
        return error
    if isinstance(error, LimitedError):
        return LimitedError(error.field, f"{error.problem} {told}", error.retry_after_s)
    if isinstance(error, ServerError):
        return ServerError(f"{error} {told}", uncertain=False)
    return StoreUnavailableError(f"{error} {told}") if isinstance(error, StoreUnavailableError) else error

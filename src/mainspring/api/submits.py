"""Submitting: one job, or as many as fit into a body.

A batch goes to the store in chunks, the next being made while others commit, and yields to other requests between them. Each job
has its own answer: what is wrong with one, a key that belongs to another job, a quota that is used up, a store that went away
meanwhile. Acknowledged means durable.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from msgspec import Raw, json, msgpack

from mainspring.api.asking import Ask
from mainspring.api.items import JSON, LINES, MSGPACK, Item, read_item, read_items
from mainspring.api.limits import MAX_BATCH_BODY
from mainspring.api.operations import Content, Room
from mainspring.api.problems import problem_of
from mainspring.api.replies import Reply, document
from mainspring.core.draft import Draft
from mainspring.core.jsontext import read_object
from mainspring.core.options import check_name
from mainspring.core.partition import format_id
from mainspring.errors import ConflictError, InvalidError, MainspringError, StoreUnavailableError
from mainspring.store.contract import Inserted
from mainspring.submit import CHUNK, IN_FLIGHT
from mainspring.verbs import documents as d

SUBMITS = Room("Jobs")

KEY_HEADER = "Idempotency-Key"

_FORMS = (JSON, LINES, *MSGPACK)
_encoder = json.Encoder()


@SUBMITS.post(
    "/v1/jobs",
    "submit_job",
    body=d.SubmitRequest,
    headers={KEY_HEADER: "The same as `options.key`: one job per tenant and key, however often it is submitted."},
    answers={
        201: Content(d.Submitted, description="It was submitted."),
        200: Content(d.Submitted, description="A job with this key, or with these arguments, was there already."),
    },
    problems=(409,),
)
async def submit_job(ask: Ask) -> Reply:
    """Submit a job. Durable when this is answered."""
    _, data = await ask.raw(JSON)
    item = read_item(data)
    if (key := ask.header(KEY_HEADER)) is not None:
        item = _with_key(item, check_name(KEY_HEADER, key))
    with ask.parts.quotas.jobs(ask.one_tenant, 1):
        (answer,) = await _submit(ask, [item])
    if isinstance(answer, MainspringError):
        raise answer
    return document(d.Submitted(id=format_id(answer.id), existed=answer.existed), 200 if answer.existed else 201)


@SUBMITS.post(
    "/v1/jobs/batch",
    "submit_jobs",
    body=Content(list[d.SubmitRequest], _FORMS),
    body_limit=MAX_BATCH_BODY,
    answers={200: Content(list[d.SubmittedItem], _FORMS, "One answer per job, in order, in the form of the request.")},
)
async def submit_jobs(ask: Ask) -> Reply:
    """Submit many jobs. Each has its own answer; those that were accepted are durable when this is answered.

    As a JSON array, as one JSON object per line, or as MessagePack: an array of maps, or maps one after the other.
    """
    media, data = await ask.raw(*_FORMS)
    answers = await _submit_many(ask, read_items(media, data))
    return Reply(200, _encoded(media, _shown(answers)), media.encode())


def _with_key(item: d.RawSubmit, key: str) -> d.RawSubmit:
    options = read_object("options", bytes(item.options))
    if options.get("key", key) != key:
        raise InvalidError(KEY_HEADER, "differs from options.key; say it once")
    return d.RawSubmit(kind=item.kind, arguments=item.arguments, options=Raw(json.encode(options | {"key": key})))


Answer = Inserted | MainspringError


async def _submit_many(ask: Ask, items: Sequence[Item]) -> list[Answer]:
    """While one chunk commits, the next ones are made."""
    answers: list[Answer] = []
    flying: deque[asyncio.Task[Sequence[Answer]]] = deque()
    try:
        for start in range(0, len(items), CHUNK):
            flying.append(asyncio.create_task(_submit_chunk(ask, items[start : start + CHUNK])))
            await asyncio.sleep(0)
            if len(flying) >= IN_FLIGHT:
                answers += await flying.popleft()
        while flying:
            answers += await flying.popleft()
    finally:
        for task in flying:
            task.cancel()
    first = answers[0] if answers else None
    if isinstance(first, StoreUnavailableError) and all(type(answer) is type(first) for answer in answers):
        raise first  # nothing at all was written: the whole request may be repeated
    return answers


async def _submit_chunk(ask: Ask, items: Sequence[Item]) -> Sequence[Answer]:
    try:
        with ask.parts.quotas.jobs(ask.one_tenant, len(items)):
            return await _submit(ask, items)
    except MainspringError as error:
        return [item if isinstance(item, MainspringError) else error for item in items]


async def _submit(ask: Ask, items: Sequence[Item]) -> Sequence[Answer]:
    """One answer per job, in order."""
    good = [item for item in items if type(item) is d.RawSubmit]
    made = await ask.verbs.jobs.drafts(good)
    drafts = [draft for draft in made if type(draft) is Draft]
    inserted = [_answer(*pair) for pair in zip(drafts, await ask.verbs.jobs.submit(drafts), strict=True)]
    if len(drafts) == len(items):
        return inserted
    accepted, read = iter(inserted), iter(made)
    answers: list[Answer] = []
    for item in items:
        answer = item if isinstance(item, MainspringError) else next(read)
        answers.append(next(accepted) if isinstance(answer, Draft) else answer)
    return answers


def _answer(draft: Draft, inserted: Inserted) -> Answer:
    if not inserted.conflict:
        return inserted
    key = draft.options.key
    return ConflictError(
        f"key: {key!r} belongs to a job with another kind, other arguments or other secrets; use another key"
    )


def _shown(answers: Sequence[Answer]) -> list[d.SubmittedItem]:
    told: dict[int, d.Problem] = {}  # an error that many jobs share is told once
    return [
        d.SubmittedItem(problem=told.get(id(answer)) or told.setdefault(id(answer), problem_of(answer)))
        if isinstance(answer, MainspringError)
        else d.SubmittedItem(id=format_id(answer.id), existed=answer.existed)
        for answer in answers
    ]


def _encoded(media: str, items: list[d.SubmittedItem]) -> bytes:
    if media == JSON:
        return _encoder.encode(items)
    return _encoder.encode_lines(items) if media == LINES else msgpack.encode(items)

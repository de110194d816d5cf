"""What workers themselves say: register, pull, report, leave; and what operators do to one. The worker protocol is in `wire_http`.

Pull and report carry whole batches, so their bodies are read straight into structs. A session is found wherever it lives (see
`forwarding`); one of another tenant does not exist for the caller.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

import msgspec

from mainspring.access.roles import Role
from mainspring.api.asking import Ask
from mainspring.api.bodies import read_body
from mainspring.api.callers import TENANT_HEADER
from mainspring.api.forwarding import Body
from mainspring.api.limits import MAX_BATCH_BODY
from mainspring.api.operations import Room
from mainspring.api.problems import problem, problem_reply, refuse_decoding
from mainspring.api.replies import JSON, Reply, document, nothing
from mainspring.api.waiting import wait_for
from mainspring.core.job import Resources
from mainspring.core.options import check_labels, check_name, whole_number
from mainspring.dispatch.desk import LONG_POLL_S
from mainspring.dispatch.place import HEARTBEAT_S
from mainspring.errors import InvalidError, NotFoundError, SessionEndedError
from mainspring.execute.types.catalogue import is_type
from mainspring.store.contract import KindRecord
from mainspring.store.service import ALL_TENANTS
from mainspring.sweep.ownership import LEASE_S
from mainspring.verbs import documents as d
from mainspring.verbs.keys import enrol
from mainspring.wire import WorkerInfo
from mainspring.wire_http import (
    FEATURES,
    MAX_KINDS,
    MAX_SLOTS,
    PROTOCOL,
    HttpReport,
    Pull,
    PullAnswer,
    Registered,
    Registration,
    ReportAnswer,
    pull_answer,
    read_report,
    report_answer,
)

if TYPE_CHECKING:
    from mainspring.dispatch.desk import Desk

WORKERS = Room("Workers")
WORKER_ROUTES = WORKERS.operations

T = TypeVar("T")

_FORWARD_S = 30.0  # for an answer of another server, beside what it may wait

_encode = msgspec.json.Encoder().encode
_pulls = msgspec.json.Decoder(Pull)
_reports = msgspec.json.Decoder(HttpReport)


@WORKERS.post("/v1/workers", "register_worker", body=Registration, answer=Registered, status=201)
async def register_worker(ask: Ask) -> Reply:
    """Register a worker. Opens a session, which lives as long as reports come."""
    asked = _decoded(msgspec.json.Decoder(Registration), await _body(ask))
    info = _checked(asked)
    tenant = _tenant(ask)
    desk = ask.parts.desk
    if desk is None or desk.closed:
        return _elsewhere()
    await _declare(ask, info.kinds)
    session = await desk.register(info, None, tenant)
    answer = Registered(
        session=str(UUID(bytes=session)),
        features=[feature for feature in FEATURES if feature in asked.features],
        lease_s=LEASE_S,
        heartbeat_s=HEARTBEAT_S,
        long_poll_s=LONG_POLL_S,
    )
    return document(answer, 201)


@WORKERS.post("/v1/workers/{session}/pull", "pull_jobs", body=Pull, answer=PullAnswer, problems=(410,))
async def pull_jobs(ask: Ask) -> Reply:
    """Ask for jobs. Waits until there are some; repeating a number repeats its answer."""
    body = await _body(ask)
    asked = _decoded(_pulls, body)
    wait_s = LONG_POLL_S if asked.wait_s is None else min(asked.wait_s, LONG_POLL_S)

    async def pull(desk: "Desk", session: bytes) -> Reply:
        reply = await wait_for(ask, desk.poll(session, asked.number, asked.free, wait_s), wait_s + 1.0)
        return _elsewhere() if reply is None else Reply(200, _encode(pull_answer(reply)), JSON)

    return await at_desk(ask, pull, body, wait_s)


@WORKERS.post(
    "/v1/workers/{session}/report",
    "report_attempts",
    body=HttpReport,
    body_limit=MAX_BATCH_BODY,
    answer=ReportAnswer,
    problems=(410,),
)
async def report_attempts(ask: Ask) -> Reply:
    """Report what has ended and what runs. Also the sign of life; it may be repeated, an outcome counts once."""
    body = await _body(ask)

    async def report(desk: "Desk", session: bytes) -> Reply:
        reply = await desk.report(session, read_report(_decoded(_reports, body)))
        return Reply(200, _encode(report_answer(reply)), JSON)

    return await at_desk(ask, report, body)


@WORKERS.post("/v1/workers/{session}/drain", "drain_worker")
async def drain_worker(ask: Ask) -> Reply:
    """Ask a worker to leave. It takes nothing new, finishes what it runs and goes."""

    async def drain(_: "Desk", __: bytes) -> Reply:
        await ask.verbs.workers.drain(ask.path("session"))
        return nothing()

    return await _by_operator(ask, drain)


@WORKERS.delete("/v1/workers/{session}", "end_worker", problems=(410,))
async def end_worker(ask: Ask) -> Reply:
    """End a worker's session. The worker leaves so; asked by an operator, it is removed. What it has runs elsewhere."""

    async def leave(desk: "Desk", session: bytes) -> Reply:
        await desk.end(session)
        return nothing()

    async def remove(_: "Desk", __: bytes) -> Reply:
        await ask.verbs.workers.remove(ask.path("session"))
        return nothing()

    if ask.caller is not None and ask.caller.role is Role.WORKER:
        return await at_desk(ask, leave, b"")
    return await _by_operator(ask, leave if ask.caller is None else remove)


@WORKERS.post("/v1/workers/enrol", "enrol_worker", answer=d.KeyDocument, status=201)
async def enrol_worker(ask: Ask) -> Reply:
    """Exchange a join token for a worker's key. The token, sent as the bearer, is spent."""
    return document(await enrol(ask.parts.engine, ask.actor), 201)


Act = Callable[["Desk", bytes], Awaitable[Reply]]


async def at_desk(ask: Ask, act: Act, body: Body, wait_s: float = 0.0, *, large: bool = False) -> Reply:
    """Do it where the session lives. `large`: the answer."""
    session = session_of(ask)
    url = await ask.parts.forwarder.find(ask, session)
    if url is not None:
        return await ask.parts.forwarder.forward(ask, session, url, body, wait_s + _FORWARD_S, large=large)
    desk = ask.parts.desk
    assert desk is not None
    _check_tenant(ask, desk.tenant_of(session))
    return await act(desk, session)


async def _by_operator(ask: Ask, act: Act) -> Reply:
    """As `at_desk`, for somebody to whom a session is a worker in a list: also one inside a node, and 404 where there is none."""
    session = session_of(ask)
    (record,) = await ask.parts.engine.store.read_sessions([session])
    if record is None or (ask.tenant is not None and record.tenant not in (None, ask.tenant)):
        raise NotFoundError(f"worker: there is none with the session {ask.path('session')}")
    url = await ask.parts.forwarder.find(ask, session)
    if url is not None:
        return await ask.parts.forwarder.forward(ask, session, url, b"", _FORWARD_S)
    desk = ask.parts.desk
    assert desk is not None
    return await act(desk, session)


def session_of(ask: Ask) -> bytes:
    text = ask.path("session")
    try:
        return UUID(text).bytes
    except ValueError:
        raise InvalidError("session", f"{text!a} is no session: expected a UUID") from None


def _check_tenant(ask: Ask, tenant: str | None) -> None:
    caller = ask.caller
    if caller is not None and not caller.everywhere and caller.tenant != tenant:
        raise SessionEndedError("there is no such session: register again")


def _tenant(ask: Ask) -> str | None:
    """The only tenant that the worker serves. A key of all tenants serves all, unless the header names one."""
    if ask.caller is None or ask.caller.everywhere:
        wanted = ask.header(TENANT_HEADER)
        return None if wanted in (None, ALL_TENANTS) else ask.tenant
    return ask.caller.tenant


async def _declare(ask: Ask, kinds: frozenset[str]) -> None:
    """Kinds that no application has declared can be submitted from now on, with every default as it is."""
    store = ask.parts.engine.store
    known = {kind.name for kind in await store.list_kinds()}
    unknown = sorted(kind for kind in kinds - known if not is_type(kind))
    if unknown:
        await store.add_kinds([KindRecord(name, b"{}") for name in unknown])


def _checked(asked: Registration) -> WorkerInfo:
    if asked.protocol != PROTOCOL:
        text = (
            f"the worker speaks version {asked.protocol}, this server version {PROTOCOL}: update the older of the two"
        )
        raise InvalidError("protocol", text)
    if not 1 <= len(asked.kinds) <= MAX_KINDS:
        raise InvalidError("kinds", f"has {len(asked.kinds)} entries; 1 to {MAX_KINDS} are allowed")
    return WorkerInfo(
        name=check_name("name", asked.name),
        slots=whole_number("slots", asked.slots, 1, MAX_SLOTS),
        kinds=frozenset(check_name("kinds", kind) for kind in asked.kinds),
        labels=check_labels(asked.labels),
        resources=_resources(asked.resources),
    )


def _resources(given: Resources) -> Resources:
    for field, value in (("cpu", given.cpu), ("memory_mb", given.memory_mb), ("gpu", given.gpu)):
        if not 0 <= value < 2**53:
            raise InvalidError(f"resources.{field}", f"expected a number from 0, got {value!r}")
    return given


async def _body(ask: Ask) -> bytes:
    return await read_body(ask.receive, ask.header("content-length"), ask.operation.body_limit)


def _decoded(decoder: "msgspec.json.Decoder[T]", body: bytes) -> T:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        refuse_decoding(error)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidError("body", f"not JSON: {error}") from None
    except RecursionError:
        raise InvalidError("body", "is nested too deeply") from None


def _elsewhere() -> Reply:
    return problem_reply(problem("unavailable", 503, "this server is about to leave; try again", after_s=1.0))

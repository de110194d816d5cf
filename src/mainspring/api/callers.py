"""Who asks, and may he: from a bearer key to a `Caller`, a tenant and an `Actor`, before any handler runs.

An unknown key is 401, a role or tenant that does not allow it 403, a rate that is used up 429; in this order, and all of it before
the request's content is looked at. Refusals are recorded in audit chains, a few per key and minute: whoever tries doors must not
fill them.
"""

import ipaddress
import time
from urllib.parse import urlsplit

from mainspring.access.audit import Actor, AuditLog, actor_of
from mainspring.access.keys import Caller
from mainspring.access.rates import Buckets, limit_requests
from mainspring.access.roles import INSTANCE, OPEN, allows
from mainspring.api.asking import Ask
from mainspring.core.job import DEFAULT_TENANT
from mainspring.core.options import check_name
from mainspring.errors import ForbiddenError, InvalidError, MainspringError, StoreError, UnknownKeyError
from mainspring.runtime.log import get_logger
from mainspring.store.service import ALL_TENANTS

TENANT_HEADER = "Mainspring-Tenant"

_log = get_logger("mainspring.api")

_SCHEME = "bearer "


class Door:
    """Lets requests in. One per API."""

    def __init__(self, audit: AuditLog) -> None:
        self._refusals = Refusals(audit)

    async def admit(self, ask: Ask) -> None:
        """Say in `ask` who asks and for which tenant; raises where he may not."""
        keyring, operation = ask.parts.keyring, ask.operation.id
        if keyring is None or operation in OPEN:
            if keyring is None:
                _check_local(ask)
            ask.caller, ask.actor = None, Actor("anybody", ask.origin)
            ask.tenant = _all_or_one(_wanted_tenant(ask) or DEFAULT_TENANT)
            return
        ask.actor = Actor("unknown key", ask.origin)
        try:
            ask.caller = caller = await keyring.identify(bearer(ask))
            ask.actor = actor_of(caller, ask.origin)
            _check_role(caller, operation)
            ask.tenant = _all_or_one(_tenant(ask, caller))
        except (UnknownKeyError, ForbiddenError) as error:
            self._refusals.note(ask, error)
            raise
        limit_requests(ask.parts.rates, caller, time.monotonic())


def _check_local(ask: Ask) -> None:
    """Without keys, whoever runs a program on this machine may ask, and no page in a browser that was made elsewhere: not one that
    sends forms here, and not one whose name was made to lead here."""
    host, origin = ask.header("Host") or "", ask.header("Origin")
    if not _is_local(host):
        raise ForbiddenError(
            f"Host: a server without keys answers to localhost and 127.0.0.1 only, not to {host[:100]!a}"
        )
    if origin is not None and origin.partition("://")[2] != host:
        raise ForbiddenError("Origin: a server without keys does not answer pages of other places")


def _is_local(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def bearer(ask: Ask) -> str:
    """The text after `Authorization: Bearer`."""
    given = ask.header("Authorization")
    if given is None:
        raise UnknownKeyError("Authorization: is missing; send 'Authorization: Bearer KEY'")
    if not given[: len(_SCHEME)].lower() == _SCHEME:
        raise UnknownKeyError("Authorization: expected 'Bearer KEY'")
    return given[len(_SCHEME) :].strip()


def _check_role(caller: Caller, operation: str) -> None:
    if not allows(caller.role, operation):
        raise ForbiddenError(
            f"a key of the role {caller.role} may not ask for {operation}; see the table of permissions"
        )
    if operation in INSTANCE and not caller.everywhere:
        raise ForbiddenError(f"{operation} concerns all tenants: it needs a key of all tenants")


def _tenant(ask: Ask, caller: Caller) -> str:
    wanted = _wanted_tenant(ask)
    if caller.everywhere:
        return wanted or DEFAULT_TENANT
    if wanted not in (None, ALL_TENANTS, caller.tenant):
        raise ForbiddenError(f"{TENANT_HEADER}: the key belongs to another tenant")
    return caller.tenant  # also the whole of all tenants that it may act for


def _all_or_one(tenant: str) -> str | None:
    return None if tenant == ALL_TENANTS else tenant


def _wanted_tenant(ask: Ask) -> str | None:
    given = ask.header(TENANT_HEADER)
    if given is None or given == ALL_TENANTS:
        return given
    if "/" in check_name(TENANT_HEADER, given):
        raise InvalidError(TENANT_HEADER, "holds a '/', which parts a tenant from a name")
    return given


class Refusals:
    """Records refused requests, at most `BURST` at once and then one per `EVERY_S` of each key; those without one together."""

    BURST = 5
    EVERY_S = 60.0

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        self._buckets = Buckets()

    def note(self, ask: Ask, error: MainspringError) -> None:
        """Returns at once: whoever is refused waits for nothing."""
        caller = getattr(ask, "caller", None)
        name = "" if caller is None else caller.key
        if self._buckets.take(name, 1 / self.EVERY_S, self.BURST, time.monotonic()) > 0:
            return
        tenant = None if caller is None or caller.everywhere else caller.tenant
        ask.parts.later(self._record(tenant, ask.actor, ask.operation.id, str(error)))

    async def _record(self, tenant: str | None, actor: Actor, operation: str, why: str) -> None:
        try:
            await self._audit.record(tenant, actor, "refused", operation, after={"why": why})
        except StoreError as error:
            _log.warning("a refused request could not be recorded", error=str(error), operation=operation)

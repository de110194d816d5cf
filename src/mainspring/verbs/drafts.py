"""Submits that come without the application's code, as JSON: from a request to a `Draft`.

The kind must be one that an application has declared in the store, and its defaults lie under the options of the request; or a job
type, whose arguments are checked here (those of a function are checked by its worker, which alone knows it). Jobs with the same
options share one `JobOptions` object, which is what lets `submit.group` write them as one batch; so what was read once is kept,
by kind, tenant and the bytes of the options.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import UNSET, Raw, json, structs

from mainspring.core.draft import Draft, place
from mainspring.core.jsontext import check_object, compact, encode_object, read_object
from mainspring.core.options import JobOptions, merged
from mainspring.core.options_json import read_options
from mainspring.core.words import listed
from mainspring.errors import InvalidError, MainspringError
from mainspring.execute.types.catalogue import checked, is_type
from mainspring.store.contract import Store
from mainspring.verbs import documents as d

ARGUMENTS, OPTIONS = "arguments", "options"

_FRESH_S = 5.0  # an application may come with new defaults meanwhile
_MOST_KEPT = 4096
_NO_DEFAULTS = b"{}"

_decode_defaults = json.Decoder(JobOptions).decode


class Drafts:
    """One for all requests of a process."""

    def __init__(self, store: Store, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._monotonic = monotonic
        self._read_s = -_FRESH_S
        self._stored: dict[str, bytes] = {}
        self._options: dict[tuple[str, str | None, bytes], JobOptions] = {}

    async def make(self, request: d.SubmitRequest, tenant: str | None) -> Draft:
        """One draft; what is wrong is raised."""
        await self._know([request.kind])
        arguments = checked(request.kind, encode_object(ARGUMENTS, request.arguments))
        check_object(OPTIONS, request.options)
        return Draft(request.kind, arguments, self._checked(request.kind, tenant, request.options))

    async def make_many(self, requests: Sequence[d.RawSubmit], tenant: str | None) -> list[Draft | MainspringError]:
        """One answer per request: the draft, or what is wrong with it."""
        await self._know({request.kind for request in requests})
        made: list[Draft | MainspringError] = []
        for request in requests:
            try:
                options = self._shared(request.kind, tenant, request.options)
                arguments = checked(request.kind, compact(ARGUMENTS, bytes(request.arguments)))
                made.append(Draft(request.kind, arguments, options))
            except MainspringError as error:
                made.append(error)
        return made

    def _shared(self, kind: str, tenant: str | None, raw: Raw) -> JobOptions:
        key = (kind, tenant, bytes(raw))
        found = self._options.get(key)
        if found is None:
            found = self._checked(kind, tenant, read_object(OPTIONS, key[2]))
            if len(self._options) >= _MOST_KEPT:
                self._options.clear()
            self._options[key] = found
        return found

    def _checked(self, kind: str, tenant: str | None, document: dict[str, Any]) -> JobOptions:
        defaults = _NO_DEFAULTS if is_type(kind) else self._stored.get(kind)
        if defaults is None:
            names = listed(sorted(self._stored), 20) or "none yet: run the application once"
            raise InvalidError("kind", f"the store knows no kind {kind[:200]!r}; it knows {names}")
        options = merged(_decode_defaults(defaults), for_tenant(read_options(document), tenant))
        place(kind, options, self._store.clock.now())  # says what no store could take, while it concerns one job only
        return options

    async def _know(self, kinds: Sequence[str] | set[str]) -> None:
        """Look at the declared kinds, unless that was a moment ago and all of these were there."""
        now_s = self._monotonic()
        if now_s - self._read_s < _FRESH_S and all(kind in self._stored or is_type(kind) for kind in kinds):
            return
        stored = {record.name: record.defaults for record in await self._store.list_kinds()}
        self._read_s = now_s
        if stored != self._stored:
            self._stored = stored
            self._options.clear()


def for_tenant(options: JobOptions, tenant: str | None) -> JobOptions:
    """The same for a tenant; None: for whichever they name. To name another one is a mistake."""
    if tenant is None or options.tenant == tenant:
        return options
    if options.tenant is not UNSET:
        raise InvalidError("tenant", f"is {options.tenant!r}, and this is asked for {tenant!r}: leave it out")
    return structs.replace(options, tenant=tenant)

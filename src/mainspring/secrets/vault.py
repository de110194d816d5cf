"""The secrets of tenants: sealed for the store, and opened for those who deliver jobs.

A value that was opened is remembered for a moment, and forgotten when a hint says that a secret changed.
"""

import time
from collections.abc import Callable, Collection

from mainspring.errors import MainspringError, NotFoundError, SecretsError
from mainspring.secrets.envelope import Place, required, seal, unseal
from mainspring.secrets.keys import MasterKeys
from mainspring.store.contract import Hint
from mainspring.store.service import SecretRecord, Secrets

Name = tuple[str, str]  # of a tenant, and of its secret
Opened = str | MainspringError  # the value, or why there is none

_FRESH_S = 5.0  # behind hints that were lost


class Vault:
    """One for a process, over its store. `keys` None: nothing can be sealed or opened here, and every try says so."""

    def __init__(
        self, store: Secrets, keys: MasterKeys | None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.keys = keys
        self._store = store
        self._monotonic = monotonic
        self._known: dict[Name, Opened] = {}
        self._until_s = 0.0

    def hear(self, hint: Hint) -> None:
        if hint.topic == "secret":
            self._known = {}  # another one: what is being read now is not remembered

    def seal(self, tenant: str, name: str, value: str) -> tuple[str, bytes]:
        """The id of the key, and the value sealed with it."""
        return required(self.keys).current, seal(self.keys, _place(tenant, name), value.encode())

    async def open(self, names: Collection[Name]) -> dict[Name, Opened]:
        """An answer for each: the value, `NotFoundError`, or the `SecretsError` that kept it shut."""
        if self._monotonic() >= self._until_s:
            self._known, self._until_s = {}, self._monotonic() + _FRESH_S
        known = self._known
        unknown = [name for name in names if name not in known]
        if unknown:
            records = await self._store.read_secrets(unknown)
            known |= {name: self._opened(name, record) for name, record in zip(unknown, records, strict=True)}
        return {name: known[name] for name in names}

    def _opened(self, name: Name, record: SecretRecord | None) -> Opened:
        tenant, own = name
        if record is None:
            return NotFoundError(f"the tenant {tenant!r} has no secret {own!r}: set it with `mainspring secrets set`")
        try:
            return unseal(self.keys, _place(tenant, own), record.sealed).decode()
        except SecretsError as error:
            return SecretsError(f"the secret {own!r} cannot be opened: {error}")


def _place(tenant: str, name: str) -> Place:
    return Place("secret", tenant, name, "value")

"""What a store promises to the service: tenants and their quotas, keys, secrets, templates, audit chains. All of it is global, none
slotted.

The rules of `store.contract` hold here too.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from mainspring.core.timer import Micros

ALL_TENANTS = "*"  # the tenant of a key that may act for each of them


class Quota(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a tenant may have at once; None: unlimited. `submits_per_s`: jobs submitted."""

    queued: int | None = None
    running: int | None = None
    schedules: int | None = None
    submits_per_s: float | None = None


class TenantRecord(Struct, frozen=True):
    """`erased_at`: it is gone, and its name is not given again. `sealed`: arguments and results of its jobs are encrypted."""

    name: str
    quota: Quota
    created_at: Micros
    erased_at: Micros | None = None
    sealed: bool = False


class Tenants(Protocol):
    async def put_tenants(self, tenants: Sequence[TenantRecord]) -> list[bool]:
        """Insert, or replace the quota; False where it has been erased. A quota on running jobs becomes the limit
        `tenant/NAME`, which assigning keeps. Sends the hint "tenant"."""

    async def seal_tenant(self, name: str, sealed: bool) -> bool:
        """Say whether jobs of this tenant are stored encrypted from now on, and insert it where there is none; False where it
        has been erased. `put_tenants` leaves that alone. Sends the hint "tenant"."""

    async def list_tenants(self) -> list[TenantRecord]:
        """By name, the erased ones too."""

    async def erase_tenant(self, name: str, limit: int) -> int:
        """Mark it as erased and delete up to `limit` of its jobs in whatever state with all that belongs to them; how many. When
        the answer is less than `limit`, everything else of it has gone too: schedules, queues, limits, lanes, sessions,
        templates, keys, secrets, and the content of its audit records, whose hashes stay."""

    async def count_waiting(self) -> dict[int, int]:
        """Jobs in `timer` and `ready` by lane: costs a step per waiting job, so for quotas now and then, not for each submit."""


class KeyRecord(Struct, frozen=True, kw_only=True):
    """A key or a join token (role "join"). `id` is its public part, `digest` the SHA-256 of all of it."""

    id: str
    digest: bytes
    name: str
    role: str
    tenant: str  # ALL_TENANTS: may act for each
    created_at: Micros
    created_by: str
    requests_per_s: float | None = None  # of each server; None: unlimited
    expires_at: Micros | None = None
    revoked_at: Micros | None = None


class Keys(Protocol):
    async def insert_keys(self, keys: Sequence[KeyRecord], *, spend: str | None = None) -> bool:
        """Store new keys. `spend`: revoke this one in the same transaction. Where it is unknown, revoked or expired, or where
        one of the new ids is taken: False, and nothing is written."""

    async def read_keys(self, ids: Sequence[str]) -> list[KeyRecord | None]:
        """In the order asked, revoked and expired ones too."""

    async def list_keys(self, tenant: str | None = None) -> list[KeyRecord]:
        """Oldest first; None: of all tenants."""

    async def revoke_keys(self, ids: Sequence[str]) -> int:
        """How many were not revoked before. Sends the hint "key"."""


class SecretRecord(Struct, frozen=True, kw_only=True):
    """A tenant's secret. `sealed`: its value, which a store cannot read; `key`: the id of the key that it is sealed with."""

    tenant: str
    name: str
    key: str
    sealed: bytes
    changed_at: Micros
    changed_by: str


SealedIn = Literal["secret", "arguments", "result"]


class SealedRow(Struct, frozen=True):
    """Something sealed. `place`: `tenant/name` of a secret, or a job's id in hexadecimal."""

    place: str
    sealed: bytes


class Secrets(Protocol):
    """What is sealed, by whoever has the keys: a store keeps bytes."""

    async def put_secrets(self, secrets: Sequence[SecretRecord]) -> None:
        """Insert or replace. Sends the hint "secret", as does `delete_secrets`."""

    async def read_secrets(self, wanted: Sequence[tuple[str, str]]) -> list[SecretRecord | None]:
        """By tenant and name, in the order asked."""

    async def list_secrets(self, tenant: str | None = None) -> list[SecretRecord]:
        """By tenant and name; None: of all tenants."""

    async def delete_secrets(self, names: Sequence[tuple[str, str]]) -> int:
        """How many there were."""

    async def list_sealed(
        self, where: SealedIn, mark: bytes, after: str, limit: int
    ) -> tuple[list[SealedRow], str | None]:
        """Look at up to `limit` rows behind a place (`""`: from the start) in the order of places: those that are sealed
        (`core.secret.SEALED`) and do not begin with `mark`, and the place to go on behind; None where that was the end."""

    async def replace_sealed(self, where: SealedIn, rows: Sequence[tuple[SealedRow, bytes]], key: str) -> int:
        """Replace what is sealed in each row that still is as it was read; how many were. `key`: the id to note for secrets."""


class TemplateRecord(Struct, frozen=True, kw_only=True):
    """One version of a template, with what all of its versions share: `current` and `shared_with`."""

    tenant: str
    name: str
    version: int
    definition: bytes  # JSON
    created_at: Micros
    created_by: str
    current: int
    shared_with: tuple[str, ...] = ()


class Templates(Protocol):
    async def put_templates(self, records: Sequence[TemplateRecord]) -> list[bool]:
        """Store each as a new version, which becomes current; False where its version is not the last one plus 1 (1: the first),
        and then nothing of any of them is written. `shared_with` is taken from a first version only."""

    async def list_templates(self, tenant: str) -> list[TemplateRecord]:
        """The current version of a tenant's own and of those shared with it (by name or with ALL_TENANTS); by owner and name."""

    async def list_template_versions(self, tenant: str, name: str) -> list[TemplateRecord]:
        """Newest first; none where there is no such template."""

    async def set_template(
        self, tenant: str, name: str, *, current: int | None = None, shared_with: tuple[str, ...] | None = None
    ) -> bool:
        """Change what is given, and leave the rest as it is; False where there is no such template or version."""

    async def delete_template(self, tenant: str, name: str) -> bool: ...


class AuditEntry(Struct, frozen=True):
    """A link of a chain; `content` is None after an erasure."""

    tenant: str
    number: int
    at: Micros
    content: bytes | None
    digest: bytes
    hash: bytes


class Audit(Protocol):
    async def append_audit(self, contents: Sequence[tuple[str, bytes]]) -> None:
        """Add records (tenant, content) to the chains of their tenants, in this order: numbered from 1 without gaps, each hash
        made by `core.chain.link` from the one before. Appends to one chain come one after the other."""

    async def list_audit(self, tenant: str, *, after: int, limit: int) -> list[AuditEntry]:
        """By number."""


class ServiceStore(Tenants, Keys, Secrets, Templates, Audit, Protocol):
    """All of it."""

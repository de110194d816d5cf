"""Keys, tenants and the audit chains."""

from typing import Annotated

from msgspec import Meta, Struct

from mainspring.api.asking import Ask
from mainspring.api.limits import MAX_PAGE
from mainspring.api.operations import Room
from mainspring.api.replies import Reply, document, nothing
from mainspring.verbs import documents as d

ACCESS = Room("Access")


class AuditQuery(Struct, forbid_unknown_fields=True):
    after: Annotated[int, Meta(ge=0, le=2**62, description="Only records with a higher number.")] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE, description="How many at most.")] = 100


class NewJoinToken(d.Request, frozen=True, kw_only=True):
    """`expires_in`: a duration."""

    name: str
    expires_in: str | float = "1h"


class ErasedAnswer(d.Answer, frozen=True, kw_only=True):
    """How many jobs went with it."""

    jobs: int


@ACCESS.get("/v1/keys", "list_keys", answer=list[d.KeyDocument])
async def list_keys(ask: Ask) -> Reply:
    """List keys. Without their secrets, which nobody has stored."""
    return document(await ask.verbs.keys.list())


@ACCESS.post("/v1/keys", "create_key", body=d.NewKey, answer=d.KeyDocument, status=201)
async def create_key(ask: Ask) -> Reply:
    """Make a key. The answer holds it, once and never again."""
    return document(await ask.verbs.keys.create(await ask.document(d.NewKey)), 201)


@ACCESS.delete("/v1/keys/{id}", "revoke_key")
async def revoke_key(ask: Ask) -> Reply:
    """Revoke a key. It is refused from now on, on every server within 5 seconds."""
    await ask.verbs.keys.revoke(ask.path("id"))
    return nothing()


@ACCESS.post("/v1/join-tokens", "create_join_token", body=NewJoinToken, answer=d.KeyDocument, status=201)
async def create_join_token(ask: Ask) -> Reply:
    """Make a token that enrols one worker, once."""
    asked = await ask.document(NewJoinToken)
    return document(await ask.verbs.keys.join_token(asked.name, asked.expires_in), 201)


@ACCESS.get("/v1/tenants", "list_tenants", answer=list[d.TenantDocument])
async def list_tenants(ask: Ask) -> Reply:
    """List tenants. The erased ones too."""
    return document(await ask.verbs.tenants.list())


@ACCESS.post("/v1/tenants", "create_tenant", body=d.NewTenant, answer=d.TenantDocument, status=201, problems=(409,))
async def create_tenant(ask: Ask) -> Reply:
    """Create a tenant."""
    return document(await ask.verbs.tenants.create(await ask.document(d.NewTenant)), 201)


@ACCESS.patch("/v1/tenants/{name}", "set_quota", body=d.Quota, answer=d.TenantDocument, problems=(409,))
async def set_quota(ask: Ask) -> Reply:
    """Set a tenant's quota. What is left out is unlimited."""
    return document(await ask.verbs.tenants.set_quota(ask.path("name"), await ask.document(d.Quota)))


@ACCESS.put("/v1/tenants/{name}/sealed", "seal_tenant", body=d.SealedRequest, answer=d.TenantDocument, problems=(409,))
async def seal_tenant(ask: Ask) -> Reply:
    """Seal a tenant, or unseal it. From now on arguments and results of its jobs are stored encrypted, or are not."""
    asked = await ask.document(d.SealedRequest)
    return document(await ask.verbs.tenants.seal(ask.path("name"), asked.sealed))


@ACCESS.delete("/v1/tenants/{name}", "erase_tenant", answer=ErasedAnswer)
async def erase_tenant(ask: Ask) -> Reply:
    """Erase a tenant. Its keys first, then everything else; only the hashes of its audit chain stay."""
    return document(ErasedAnswer(jobs=await ask.verbs.tenants.erase(ask.path("name"))))


@ACCESS.get("/v1/audit", "list_audit", query=AuditQuery, answer=list[d.AuditDocument])
async def list_audit(ask: Ask) -> Reply:
    """List the audit records of a tenant. Oldest first."""
    given = ask.query(AuditQuery)
    return document(await ask.verbs.audit.list(after=given.after, limit=given.limit))


@ACCESS.get("/v1/audit/verify", "verify_audit", answer=d.Verification)
async def verify_audit(ask: Ask) -> Reply:
    """Check the audit chain of a tenant, record by record."""
    return document(await ask.verbs.audit.verify())

"""Secrets: written, named and deleted; no address answers a value."""

from mainspring.api.asking import Ask
from mainspring.api.operations import Room
from mainspring.api.replies import Reply, document, nothing
from mainspring.verbs import documents as d

SECRETS = Room("Secrets")


@SECRETS.get("/v1/secrets", "list_secrets", answer=list[d.SecretDocument])
async def list_secrets(ask: Ask) -> Reply:
    """List secrets. Their names, and when, by whom and with which key they were set; never their values."""
    return document(await ask.verbs.secrets.list())


@SECRETS.put("/v1/secrets/{name}", "set_secret", body=d.SecretValue, answer=d.SecretDocument)
async def set_secret(ask: Ask) -> Reply:
    """Set a secret. Jobs that are handed over from now on get this value; nobody can read it back."""
    asked = await ask.document(d.SecretValue)
    return document(await ask.verbs.secrets.set(ask.path("name"), asked.value))


@SECRETS.delete("/v1/secrets/{name}", "delete_secret")
async def delete_secret(ask: Ask) -> Reply:
    """Delete a secret. Jobs that need it fail from now on."""
    await ask.verbs.secrets.delete(ask.path("name"))
    return nothing()


@SECRETS.post("/v1/secrets/rotate", "rotate_secrets", body=d.RotationRequest, answer=d.RotationStep)
async def rotate_secrets(ask: Ask) -> Reply:
    """Give what is sealed the server's current key, one step of many. Repeat with `next` as `after` until it is null."""
    asked = await ask.document(d.RotationRequest)
    return document(await ask.verbs.secrets.rotate(asked.after))

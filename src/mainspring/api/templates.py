"""Templates: jobs with holes."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from mainspring.api.asking import Ask
from mainspring.api.jobs import Name
from mainspring.api.limits import MAX_PAGE
from mainspring.api.operations import Content, Room
from mainspring.api.replies import Reply, document, nothing
from mainspring.errors import InvalidError
from mainspring.verbs import documents as d

TEMPLATES = Room("Templates")

Number = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class TemplateQuery(Struct, forbid_unknown_fields=True):
    version: Annotated[Number | None, Meta(description="Else the current one.")] = None
    owner: Annotated[Name | None, Meta(description="The tenant that shares it; else one's own.")] = None


class RollbackRequest(d.Request, frozen=True, kw_only=True):
    """The version to use from now on."""

    version: int


class ShareRequest(d.Request, frozen=True, kw_only=True):
    """Exactly these tenants may use it; `["*"]` is everybody."""

    tenants: list[str]


class ValidateRequest(d.Request, frozen=True, kw_only=True):
    """A template, and values for its placeholders if they shall be checked too."""

    definition: d.TemplateDefinition
    values: dict[str, Any] | None = None


@TEMPLATES.get("/v1/templates", "list_templates", answer=list[d.TemplateDocument])
async def list_templates(ask: Ask) -> Reply:
    """List templates. One's own and those that others share, the current version of each."""
    return document(await ask.verbs.templates.list())


@TEMPLATES.put(
    "/v1/templates/{name}", "put_template", body=d.TemplateDefinition, answer=d.TemplateDocument, problems=(409,)
)
async def put_template(ask: Ask) -> Reply:
    """Store a template. A new version, current from now on; the same definition again changes nothing."""
    return document(await ask.verbs.templates.put(ask.path("name"), await ask.document(d.TemplateDefinition)))


@TEMPLATES.get("/v1/templates/{name}", "read_template", query=TemplateQuery, answer=d.TemplateDocument)
async def read_template(ask: Ask) -> Reply:
    """Read a template."""
    given = ask.query(TemplateQuery)
    return document(await ask.verbs.templates.read(ask.path("name"), given.version, given.owner))


@TEMPLATES.delete("/v1/templates/{name}", "delete_template")
async def delete_template(ask: Ask) -> Reply:
    """Delete a template, with all of its versions. Jobs made from it stay."""
    await ask.verbs.templates.delete(ask.path("name"))
    return nothing()


@TEMPLATES.get("/v1/templates/{name}/versions", "list_template_versions", answer=list[d.TemplateDocument])
async def list_template_versions(ask: Ask) -> Reply:
    """List the versions of a template. Newest first."""
    return document(await ask.verbs.templates.versions(ask.path("name")))


@TEMPLATES.post("/v1/templates/{name}/rollback", "rollback_template", body=RollbackRequest, answer=d.TemplateDocument)
async def rollback_template(ask: Ask) -> Reply:
    """Use another version of a template from now on."""
    asked = await ask.document(RollbackRequest)
    return document(await ask.verbs.templates.rollback(ask.path("name"), asked.version))


@TEMPLATES.post("/v1/templates/{name}/share", "share_template", body=ShareRequest, answer=d.TemplateDocument)
async def share_template(ask: Ask) -> Reply:
    """Say which other tenants may read a template and submit from it."""
    asked = await ask.document(ShareRequest)
    if len(asked.tenants) > MAX_PAGE:
        raise InvalidError("tenants", f"has {len(asked.tenants)} entries; at most {MAX_PAGE} are allowed")
    return document(await ask.verbs.templates.share(ask.path("name"), asked.tenants))


@TEMPLATES.post(
    "/v1/templates/{name}/submit",
    "submit_template",
    body=d.TemplateSubmit,
    body_optional=True,
    answers={
        201: Content(d.Submitted, description="It was submitted."),
        200: Content(d.Submitted, description="A job with this key, or with these arguments, was there already."),
    },
    problems=(409,),
)
async def submit_template(ask: Ask) -> Reply:
    """Submit a job from a template. Its placeholders filled in, the options laid over the template's."""
    asked = await ask.document(d.TemplateSubmit, d.TemplateSubmit())
    with ask.parts.quotas.jobs(ask.one_tenant, 1):
        made = await ask.verbs.templates.submit(ask.path("name"), asked)
    return document(made, 200 if made.existed else 201)


@TEMPLATES.post("/v1/templates/validate", "validate_template", body=ValidateRequest)
async def validate_template(ask: Ask) -> Reply:
    """Check a template, and values for it. 204 where both would be taken; nothing is stored."""
    asked = await ask.document(ValidateRequest)
    await ask.verbs.templates.validate(asked.definition, asked.values)
    return nothing()


@TEMPLATES.get("/v1/templates/export", "export_templates", answer=d.TemplateBundle)
async def export_templates(ask: Ask) -> Reply:
    """Export one's own templates. The current version of each, to be imported elsewhere."""
    return document(await ask.verbs.templates.export())


@TEMPLATES.post(
    "/v1/templates/import", "import_templates", body=d.TemplateBundle, answer=list[d.TemplateDocument], problems=(409,)
)
async def import_templates(ask: Ask) -> Reply:
    """Import templates. All of them, or none where one is refused."""
    return document(await ask.verbs.templates.load(await ask.document(d.TemplateBundle)))

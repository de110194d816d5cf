"""The OpenAPI 3.1 document of the API, made from its operations; docs/reference/openapi.json is a copy.

    python -m mainspring.api.openapi > docs/reference/openapi.json

writes it again; a test compares.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import json

from mainspring.access.roles import INSTANCE, OPEN, PERMISSIONS
from mainspring.api.operations import Content, Operation
from mainspring.api.problems import TITLES
from mainspring.core.version import VERSION
from mainspring.verbs.documents import Problem

_REFERENCE = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+)\}")

_DESCRIPTIONS = {
    "id": "The id, as it was given by the server.",
    "name": "The name; a `/` in it is written `%2F`.",
    "session": "The id of the worker's session.",
    "job": "The id of a job that the session has.",
    "attempt": "The number of its attempt there.",
}

#: Status -> slug and when. Every operation may answer these.
_TEXTS = ("text/plain", "text/event-stream")

_ALWAYS = {422: "invalid", 500: "internal", 503: "unavailable"}
_WITH_KEY = {401: "unknown-key", 403: "forbidden", 404: "not-found", 429: "limited"}
_WITH_BODY = {408: "too-slow", 413: "too-large", 415: "unsupported-media"}
_OTHER = {409: "conflict", 410: "session-ended"}

_ABOUT = """Jobs, timers and schedules over HTTP.

Keys: `Authorization: Bearer msk_…`. A key of all tenants acts for the tenant in the header `Mainspring-Tenant`, else for
`default`. What is wrong is answered as a problem document (RFC 9457) that names the field. Ids are UUIDs, times are ISO 8601 in
UTC, durations are seconds in fields that end in `_s`. Ignore fields that you do not know: later versions may add some."""


def describe(operations: Sequence[Operation]) -> dict[str, Any]:
    """The document."""
    schemas, components = _schemas(operations)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.address, {})[operation.method.lower()] = _operation(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Mainspring", "version": VERSION, "description": _ABOUT},
        "tags": [{"name": name} for name in dict.fromkeys(operation.room for operation in operations)],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {slug: _problem_response(slug) for slug in sorted(TITLES)},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "bearerFormat": "msk_<id>_<secret>"},
            },
        },
    }


def _schemas(operations: Iterable[Operation]) -> tuple[dict[Any, Any], dict[str, Any]]:
    """The schema of each type that is mentioned, and what they refer to."""
    types: list[Any] = [Problem]
    for operation in operations:
        contents = [*operation.answers.values(), operation.body or Content()]
        types += [content.type for content in contents if content.type is not None]
        if operation.query is not None:
            types.append(operation.query)
    distinct = list({repr(type): type for type in types}.values())
    made, components = json.schema_components(distinct, ref_template=_REFERENCE)
    queries = {operation.query.__name__ for operation in operations if operation.query is not None}
    schemas = {repr(type): schema for type, schema in zip(distinct, made, strict=True)}
    for name in queries:
        schemas[name] = components.pop(name)
    return schemas, {name: components[name] for name in sorted(components)}


def _operation(operation: Operation, schemas: dict[Any, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.id,
        "tags": [operation.room],
        "summary": operation.summary,
        "description": _description(operation),
        "parameters": [*_path(operation), *_query(operation, schemas), *_headers(operation)],
        "responses": _responses(operation, schemas),
        "security": [] if operation.id in OPEN else [{"key": []}],
    }
    if operation.body is not None:
        described["requestBody"] = {
            "required": not operation.body_optional,
            "description": f"At most {operation.body_limit:,} bytes.",
            "content": _content(operation.body, schemas),
        }
    return described


def _description(operation: Operation) -> str:
    if operation.id in OPEN:
        return f"{operation.description}\n\nNeeds no key."
    roles = ", ".join(sorted(str(role) for role in PERMISSIONS[operation.id]))
    every = " of all tenants" if operation.id in INSTANCE else ""
    return f"{operation.description}\n\nFor keys{every} of the roles: {roles}."


def _path(operation: Operation) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _DESCRIPTIONS[name],
            "schema": {"type": "string", "minLength": 1, "maxLength": 200},
        }
        for name in _PARAMETER.findall(operation.address)
    ]


def _query(operation: Operation, schemas: dict[Any, Any]) -> list[dict[str, Any]]:
    if operation.query is None:
        return []
    schema = schemas[operation.query.__name__]
    found = []
    for name, given in schema["properties"].items():
        about = {key: value for key, value in given.items() if key != "description"}
        found.append(
            {
                "name": name,
                "in": "query",
                "required": name in schema.get("required", ()),
                "description": given["description"],
                "schema": _without_null(about),
            }
        )
    return found


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter is left out rather than null."""
    if schema.get("default", "") is None:
        schema.pop("default")
    kinds = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    if len(kinds) == 1:
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        return {**rest, **kinds[0]}
    return schema


def _headers(operation: Operation) -> list[dict[str, Any]]:
    described = dict(operation.headers)
    if operation.id not in OPEN:
        described["Mainspring-Tenant"] = "The tenant to act for, with a key of all tenants; else the key's own."
    return [
        {
            "name": name,
            "in": "header",
            "required": False,
            "description": text,
            "schema": {"type": "string", "maxLength": 200},
        }
        for name, text in described.items()
    ]


def _responses(operation: Operation, schemas: dict[Any, Any]) -> dict[str, Any]:
    found: dict[int, Any] = {}
    for status, content in operation.answers.items():
        response: dict[str, Any] = {"description": content.description or "Done."}
        if status != 204:
            response["content"] = _content(content, schemas)
        found[status] = response
    for status, slug in _problems(operation).items():
        found[status] = {"$ref": f"#/components/responses/{slug}"}
    return {str(status): found[status] for status in sorted(found)}


def _problems(operation: Operation) -> dict[int, str]:
    slugs = dict(_ALWAYS)
    if operation.id not in OPEN:
        slugs |= _WITH_KEY
    if operation.body is not None:
        slugs |= _WITH_BODY
    return slugs | {status: _OTHER[status] for status in operation.problems}


def _content(content: Content, schemas: dict[Any, Any]) -> dict[str, Any]:
    schema = {} if content.type is None else schemas[repr(content.type)]
    text = {"type": "string"}
    return {media: {"schema": text if media in _TEXTS else schema} for media in content.media}


def _problem_response(slug: str) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": TITLES[slug] + ".",
        "content": {"application/problem+json": {"schema": {"$ref": _REFERENCE.format(name="Problem")}}},
    }
    if slug in ("limited", "unavailable"):
        response["headers"] = {
            "Retry-After": {
                "description": "When to try again, in seconds.",
                "schema": {"type": "integer", "minimum": 1},
            }
        }
    return response


def text() -> str:
    """The document as it is stored: readable, and ending like a text."""
    from mainspring.api.rooms import OPERATIONS

    return json.format(json.encode(describe(OPERATIONS), order="deterministic"), indent=1).decode() + "\n"


if __name__ == "__main__":
    print(text(), end="")

"""What the page at /v1/docs offers to try an operation: its form, which the script in `browser` sends, and its line for curl.

Without the script only the descriptions and the line are shown: whatever has the class `try` needs it.
"""

from html import escape
from typing import Any

from msgspec import json

TENANT = "Mainspring-Tenant"  # has one field for the whole page

_FIELD = 'autocomplete="off" spellcheck="false"'

CALLER = (
    '<fieldset id="caller" class="try"><legend>Who asks</legend>'
    f'<p><label for="key">Key</label><br><input id="key" type="password" {_FIELD}></p>'
    f'<p><label for="tenant">Tenant, with a key of all tenants</label><br><input id="tenant" {_FIELD}></p>'
    "<p>The key is sent to this server only and kept nowhere: it is gone when the page is left. "
    "Leave it empty where the server has no keys.</p></fieldset>"
)

_BOUNDS = {"minimum": "at least", "maximum": "at most", "default": "else"}


def form(document: dict[str, Any], base: str, method: str, address: str, operation: dict[str, Any]) -> str:
    """Its parameters and body with a field for each, and where the answer will be."""
    id = escape(operation["operationId"])
    marks = f"{' data-keyed' if operation['security'] else ''}{' data-streams' if _streams(operation) else ''}"
    rows = "".join(_parameter(document, id, given) for given in operation["parameters"])
    answers = ", ".join(f"<code>{status}</code>" for status in operation["responses"])
    return (
        f'<form data-method="{method}" data-address="{escape(address)}"{marks}>'
        f"{f'<table>{rows}</table>' if rows else ''}{_body(document, id, operation)}<p>Answers: {answers}.</p>"
        f'<pre class="curl">{escape(_curl(document, base, method, address, operation))}</pre>'
        '<p class="try"><button class="send">Send</button> <button type="button" class="stop" disabled>Stop</button> '
        '<output class="status"></output></p><pre class="headers"></pre>'
        '<pre class="answer" tabindex="0" role="region" aria-label="The answer"></pre></form>'
    )


def _streams(operation: dict[str, Any]) -> bool:
    return any("text/event-stream" in response.get("content", {}) for response in operation["responses"].values())


def _parameter(document: dict[str, Any], id: str, given: dict[str, Any]) -> str:
    schema, name = given["schema"], escape(given["name"])
    bounds = [f"{word} {schema[key]}" for key, word in _BOUNDS.items() if key in schema]
    told = marked("; ".join([given["description"].rstrip("."), *bounds]))
    place = f"{given['in']}, required" if given["required"] else given["in"]
    if given["name"] == TENANT:
        label, field = f"<code>{name}</code>", '<a href="#tenant">at the top</a>'
    else:
        label, field = f'<label for="{id}-{name}"><code>{name}</code></label>', _field(document, id, given)
    return f'<tr><td>{label}</td><td class="try">{field}</td><td>{place}</td><td>{told}</td></tr>'


def _field(document: dict[str, Any], id: str, given: dict[str, Any]) -> str:
    name = escape(given["name"])
    marks = f'id="{id}-{name}" data-name="{name}" data-in="{given["in"]}"{" required" if given["required"] else ""}'
    choices = _resolved(document, given["schema"]).get("enum")
    if choices is None:
        return f'<input {marks} placeholder="{escape(str(given["schema"].get("default", "")))}" {_FIELD}>'
    options = "".join(f"<option>{escape(choice)}</option>" for choice in choices)
    return f"<select {marks}><option></option>{options}</select>"


def _body(document: dict[str, Any], id: str, operation: dict[str, Any]) -> str:
    if "requestBody" not in operation:
        return ""
    content = operation["requestBody"]["content"]
    schema = next(iter(content.values()))["schema"]
    name = escape((schema.get("$ref") or schema.get("items", {}).get("$ref", "")).rpartition("/")[2])
    told = f'a <a href="#{name}">{name}</a>' if name else "a document"
    listed = ", ".join(f"<code>{escape(media)}</code>" for media in content)
    required = operation["requestBody"]["required"]
    examples = {media: _written(media, _example(document, schema)) for media in content if "msgpack" not in media}
    first = next(iter(examples.values()))
    return (
        f'<p><label for="{id}-body">Body</label>: {told} as {listed}{", required" if required else ""}.</p>'
        f'<p class="try">{_media(id, examples)}<textarea id="{id}-body" rows="{max(4, first.count(chr(10)) + 1)}"'
        f"{' required' if required else ''} {_FIELD}>\n{escape(first)}</textarea></p>"
    )


def _media(id: str, examples: dict[str, str]) -> str:
    """A choice where there is one."""
    if len(examples) == 1:
        return f'<input type="hidden" class="media" value="{escape(next(iter(examples)))}">'
    options = "".join(
        f'<option data-example="{escape(example)}">{escape(media)}</option>' for media, example in examples.items()
    )
    return f'<label for="{id}-media">Content type</label> <select id="{id}-media" class="media">{options}</select>'


def _written(media: str, example: Any) -> str:
    """An example as it is typed: readable, and as lines where these are asked for."""
    if media.endswith("ndjson"):
        return "\n".join(json.encode(item).decode() for item in example)
    return json.format(json.encode(example), indent=2).decode()


def _curl(document: dict[str, Any], base: str, method: str, address: str, operation: dict[str, Any]) -> str:
    """As `curl` in browser/request.mjs writes it, which takes over when something is typed."""
    words = ["curl"]
    if method != "GET":
        words.append(f"-X {method}")
    if _streams(operation):
        words.append("-N")
    if operation["security"]:
        words.append('-H "Authorization: Bearer $MAINSPRING_KEY"')
    if "requestBody" in operation:
        media, content = next(iter(operation["requestBody"]["content"].items()))
        example = json.encode(_example(document, content["schema"])).decode()
        words.append(f"-H 'Content-Type: {media}' --data-raw '{example}'")
    query = "&".join(
        f"{given['name']}=…" for given in operation["parameters"] if given["in"] == "query" and given["required"]
    )
    return " ".join([*words, f"'{base}{address}{'?' + query if query else ''}'"])


def marked(text: str) -> str:
    """Text whose words in backquotes are code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(parts))


def _resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in schema:
        return schema
    found: dict[str, Any] = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found


def _example(document: dict[str, Any], schema: dict[str, Any]) -> Any:
    """Something of the right shape: what is required, as little as possible."""
    schema = _resolved(document, schema)
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return _example(document, schema["anyOf"][0])
    kind = schema.get("type")
    if kind == "object":
        required = schema.get("required", ())
        return {name: _example(document, schema["properties"][name]) for name in required}
    if kind == "array":
        return [_example(document, schema["items"])] if "items" in schema else []
    if schema.get("format") == "date-time":
        return "2030-01-31T09:00:00Z"
    return {"string": "…", "integer": 1, "number": 1.0, "boolean": True}.get(str(kind))

"""The page at /v1/docs: every operation with its parameters and a line to try it, as plain HTML. It loads nothing from anywhere."""

from collections.abc import Sequence
from html import escape
from typing import Any

from msgspec import json

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; background: #fff; color: #222 }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc } summary { cursor: pointer; padding: .3rem 0 }
summary b { display: inline-block; width: 4.5rem } code, pre { font: 14px/1.5 ui-monospace, monospace }
pre { background: #f3f3f3; padding: .7rem; overflow-x: auto } details { border-bottom: 1px solid #eee }
table { border-collapse: collapse } td, th { text-align: left; vertical-align: top; padding: .15rem 1rem .15rem 0 }
nav a { margin-right: 1rem }
@media (prefers-color-scheme: dark) { body { background: #16181d; color: #ddd } pre { background: #23262e } a { color: #8ab4f8 } }
"""


def page(document: dict[str, Any], base: str) -> str:
    """`document`: the OpenAPI document. `base`: where this server is, as whoever reads the page has reached it."""
    rooms: dict[str, list[str]] = {tag["name"]: [] for tag in document["tags"]}
    for address, methods in document["paths"].items():
        for method, operation in methods.items():
            rooms[operation["tags"][0]].append(_operation(document, base, method.upper(), address, operation))
    links = "".join(f'<a href="#{escape(name)}">{escape(name)}</a>' for name in rooms)
    sections = "".join(f'<h2 id="{escape(name)}">{escape(name)}</h2>{"".join(parts)}' for name, parts in rooms.items())
    about = "".join(f"<p>{_marked(part)}</p>" for part in document["info"]["description"].split("\n\n"))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Mainspring API</title><style>{_STYLE}</style></head><body>"
        f"<h1>Mainspring {escape(document['info']['version'])}</h1>{about}"
        '<p>The same for programs: <a href="/v1/openapi.json">/v1/openapi.json</a> (OpenAPI 3.1).</p>'
        f"<nav>{links}</nav>{sections}{_schemas(document)}</body></html>"
    )


def _operation(document: dict[str, Any], base: str, method: str, address: str, operation: dict[str, Any]) -> str:
    parameters = "".join(_parameter(given) for given in operation["parameters"])
    table = f"<table>{parameters}</table>" if parameters else ""
    answers = ", ".join(f"<code>{status}</code>" for status in operation["responses"])
    return (
        f'<details id="{escape(operation["operationId"])}"><summary><b>{method}</b> <code>{escape(address)}</code> '
        f"{escape(operation['summary'])}</summary>"
        f"{''.join(f'<p>{_marked(part)}</p>' for part in operation['description'].split(chr(10) * 2))}{table}"
        f"{_body(operation)}<p>Answers: {answers}.</p><pre>{escape(_curl(document, base, method, address, operation))}</pre>"
        "</details>"
    )


def _parameter(given: dict[str, Any]) -> str:
    schema = given["schema"]
    bounds = [f"{word} {schema[key]}" for key, word in _BOUNDS.items() if key in schema]
    told = "; ".join([given["description"], *bounds])
    return f"<tr><td><code>{escape(given['name'])}</code></td><td>{given['in']}</td><td>{escape(told)}</td></tr>"


_BOUNDS = {"minimum": "at least", "maximum": "at most", "default": "else"}


def _body(operation: dict[str, Any]) -> str:
    if "requestBody" not in operation:
        return ""
    content = operation["requestBody"]["content"]
    name = _name(next(iter(content.values()))["schema"])
    told = f'a <a href="#{name}">{name}</a>' if name else "a document"
    return f"<p>Body: {told} as {', '.join(f'<code>{escape(media)}</code>' for media in content)}.</p>"


def _name(schema: dict[str, Any]) -> str:
    reference: str = schema.get("$ref") or schema.get("items", {}).get("$ref", "")
    return escape(reference.rpartition("/")[2])


def _curl(document: dict[str, Any], base: str, method: str, address: str, operation: dict[str, Any]) -> str:
    words = ["curl"]
    if method != "GET":
        words.append(f"-X {method}")
    if any("text/event-stream" in response.get("content", {}) for response in operation["responses"].values()):
        words.append("-N")
    if operation["security"]:
        words.append('-H "Authorization: Bearer $MAINSPRING_KEY"')
    if "requestBody" in operation:
        media, content = next(iter(operation["requestBody"]["content"].items()))
        words.append(f"-H 'Content-Type: {media}' -d '{json.encode(_example(document, content['schema'])).decode()}'")
    query = "&".join(
        f"{given['name']}=…" for given in operation["parameters"] if given["in"] == "query" and given["required"]
    )
    return " ".join([*words, f"'{base}{address}{'?' + query if query else ''}'"])


def _example(document: dict[str, Any], schema: dict[str, Any]) -> Any:
    """Something of the right shape: what is required, as little as possible."""
    if "$ref" in schema:
        return _example(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
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


def _schemas(document: dict[str, Any]) -> str:
    parts = []
    for name, schema in document["components"]["schemas"].items():
        shown = json.format(json.encode(schema), indent=2).decode()
        parts.append(
            f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary><pre>{escape(shown)}</pre></details>'
        )
    return f'<h2 id="documents">Documents</h2>{"".join(parts)}'


def _marked(text: str) -> str:
    """Text whose words in backquotes are code."""
    parts: Sequence[str] = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(parts))

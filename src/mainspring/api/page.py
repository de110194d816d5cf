"""The page at /v1/docs: every operation with its parameters, a form to send it and a line for curl. Nothing foreign."""

from html import escape
from typing import Any

from msgspec import json

from mainspring.api.trying import CALLER, form, marked


def page(document: dict[str, Any], base: str) -> str:
    """`document`: the OpenAPI document. `base`: where this server is, as whoever reads the page has reached it."""
    rooms: dict[str, list[str]] = {tag["name"]: [] for tag in document["tags"]}
    for address, methods in document["paths"].items():
        for method, operation in methods.items():
            rooms[operation["tags"][0]].append(_operation(document, base, method.upper(), address, operation))
    links = "".join(f'<a href="#{escape(name)}">{escape(name)}</a>' for name in rooms)
    sections = "".join(f'<h2 id="{escape(name)}">{escape(name)}</h2>{"".join(parts)}' for name, parts in rooms.items())
    about = "".join(f"<p>{marked(part)}</p>" for part in document["info"]["description"].split("\n\n"))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        '<title>Mainspring API</title><link rel="stylesheet" href="/v1/docs/page.css">'
        '<script type="module" src="/v1/docs/page.mjs"></script></head><body>'
        f"<h1>Mainspring {escape(document['info']['version'])}</h1>{about}"
        '<p>The same for programs: <a href="/v1/openapi.json">/v1/openapi.json</a> (OpenAPI 3.1).</p>'
        f"{CALLER}<nav>{links}</nav>{sections}{_schemas(document)}</body></html>"
    )


def _operation(document: dict[str, Any], base: str, method: str, address: str, operation: dict[str, Any]) -> str:
    return (
        f'<details id="{escape(operation["operationId"])}"><summary><b>{method}</b> <code>{escape(address)}</code> '
        f"{escape(operation['summary'])}</summary>"
        f"{''.join(f'<p>{marked(part)}</p>' for part in operation['description'].split(chr(10) * 2))}"
        f"{form(document, base, method, address, operation)}</details>"
    )


def _schemas(document: dict[str, Any]) -> str:
    parts = []
    for name, schema in document["components"]["schemas"].items():
        shown = json.format(json.encode(schema), indent=2).decode()
        parts.append(
            f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary><pre>{escape(shown)}</pre></details>'
        )
    return f'<h2 id="documents">Documents</h2>{"".join(parts)}'

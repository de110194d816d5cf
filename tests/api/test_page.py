"""The page at /v1/docs: it has a field for everything, runs nothing foreign, and sends what is typed."""

import asyncio
import json
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from pathlib import Path

import pytest

from api.browser import Tab, browsing
from api.site import Site
from conftest import absent
from mainspring.api.rooms import OPERATIONS

FILES = ("page.css", "page.mjs", "request.mjs", "answer.mjs")


class Elements(HTMLParser):
    """Every element of a page with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def values(self, attribute: str) -> list[str]:
        return [value for _, given in self.found if (value := given.get(attribute)) is not None]


async def page_of(site: Site) -> str:
    answer = await site.ask("GET", "/v1/docs", key=None)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    return answer.body.decode()


async def test_it_names_every_operation_and_says_how_to_ask_without_a_script(site: Site) -> None:
    text = await page_of(site)
    for operation in OPERATIONS:
        assert f'id="{operation.id}"' in text, operation.id
    assert "curl -X POST -H &quot;Authorization: Bearer $MAINSPRING_KEY&quot;" in text


async def test_every_parameter_has_a_field_and_every_field_a_label(site: Site) -> None:
    elements = Elements(await page_of(site))
    ids = elements.values("id")
    assert len(ids) == len(set(ids))
    described = (await site.ask("GET", "/v1/openapi.json", key=None)).document
    wanted = {"key", "tenant"}
    for methods in described["paths"].values():
        for operation in methods.values():
            names = [given["name"] for given in operation["parameters"] if given["name"] != "Mainspring-Tenant"]
            names += ["body"] if "requestBody" in operation else []
            wanted |= {f"{operation['operationId']}-{name}" for name in names}
    fields = {
        given.get("id")
        for tag, given in elements.found
        if tag in ("input", "select", "textarea") and given.get("type") != "hidden"
    }
    assert fields == wanted | {"submit_jobs-media"}
    assert fields == set(elements.values("for"))


async def test_required_is_what_must_be_filled(site: Site) -> None:
    required = {given["id"] for _, given in Elements(await page_of(site)).found if "required" in given}
    assert {"read_job-id", "history-since", "submit_job-body"} <= required
    assert not {"list_jobs-state", "submit_job-Idempotency-Key", "clone_job-body"} & required


async def test_it_runs_and_loads_nothing_but_its_own_files(site: Site) -> None:
    answer = await site.ask("GET", "/v1/docs", key=None)
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
        "form-action": "'none'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
    }
    elements = Elements(answer.body.decode())
    assert set(elements.values("src")) == {"/v1/docs/page.mjs"}
    assert all(value.startswith(("#", "/v1/")) for value in elements.values("href"))
    assert not {name for _, given in elements.found for name in given if name.startswith("on") or name == "style"}
    for name in FILES:
        file = await site.ask("GET", f"/v1/docs/{name}", key=None)
        kind = "text/css" if name.endswith("css") else "text/javascript"
        assert (file.status, file.headers["Content-Type"]) == (200, f"{kind}; charset=utf-8")
        assert file.headers["X-Content-Type-Options"] == "nosniff"
        assert not re.findall(r"//[a-z0-9]+\.[a-z]|@import|\burl\(|innerHTML|\beval\(", file.body.decode()), name
        assert set(re.findall(r'from "(.*)"', file.body.decode())) <= {f"./{one}" for one in FILES}
    assert (await site.ask("GET", "/v1/docs/page.py", key=None)).status == 404


async def test_the_script_without_the_page(site: Site) -> None:
    node = shutil.which("node")
    if node is None:
        absent("node is not installed")
    given = {"SITE": site.url, "KEY": site.keys["operator"], "KEY_OF_ALL": site.keys["operator*"]}
    process = await asyncio.create_subprocess_exec(
        *(node, str(Path(__file__).with_name("page.test.mjs"))),
        env={**os.environ, **given},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(30):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, output.decode()


@asynccontextmanager
async def opened(site: Site, folder: Path) -> AsyncIterator[Tab]:
    """The page in a browser, everything unfolded. In the end the browser must have had nothing to complain of."""
    async with browsing(folder) as made:
        await made.open(f"{site.url}/v1/docs")
        await made.until("document.documentElement.className === 'scripted'")
        await made.run("document.querySelectorAll('details').forEach((one) => { one.open = true })")
        yield made
        assert made.complaints == []


@pytest.fixture
async def tab(site: Site, folder: Path) -> AsyncIterator[Tab]:
    """The same, with a key of all tenants typed in."""
    async with opened(site, folder) as made:
        await fill(made, "key", site.keys["operator*"])
        yield made


async def fill(tab: Tab, id: str, text: str) -> None:
    await tab.run(f"(field => {{ field.focus(); field.select() }})(document.getElementById({id!r}))")
    await tab.type(text)


async def shown(tab: Tab, operation: str, part: str) -> str:
    text: str = await tab.run(f"document.querySelector('#{operation} .{part}').textContent")
    return text


async def answered(tab: Tab, operation: str, status: str) -> str:
    """The answer, once it is complete."""
    await tab.until(f"/^{status}, \\d+ ms$/.test(document.querySelector('#{operation} .status').textContent)")
    return await shown(tab, operation, "answer")


async def click(tab: Tab, operation: str, button: str) -> None:
    await tab.run(f"document.querySelector('#{operation} .{button}').click()")


async def test_a_browser_submits_what_is_typed(site: Site, tab: Tab) -> None:
    await fill(tab, "tenant", "other")
    await fill(tab, "submit_job-body", '{"kind": "add", "arguments": {"a": 1, "b": 41}}')
    line = await shown(tab, "submit_job", "curl")
    assert "-H 'Mainspring-Tenant: other'" in line
    assert '"b": 41' in line
    await click(tab, "submit_job", "send")
    submitted = await answered(tab, "submit_job", "201 Created")
    assert submitted.startswith('{\n  "id": "')
    assert "content-type: application/json" in await shown(tab, "submit_job", "headers")
    assert (await site.ended(json.loads(submitted)["id"], key="other-operator"))["result"] == 42


async def test_a_browser_needs_no_key_where_there_are_none(open_site: Site, folder: Path) -> None:
    async with opened(open_site, folder) as tab:
        await fill(tab, "submit_job-body", '{"kind": "add", "arguments": {"a": 1}}')
        await click(tab, "submit_job", "send")
        await answered(tab, "submit_job", "201 Created")


async def test_pressed_twice_a_browser_sends_once(site: Site, tab: Tab) -> None:
    await fill(tab, "submit_job-body", '{"kind": "add", "arguments": {"a": 1}}')
    await tab.run("(button => { button.click(); button.click() })(document.querySelector('#submit_job .send'))")
    await answered(tab, "submit_job", "201 Created")
    assert await site.count() == 1


async def test_a_browser_follows_a_job_to_its_end(site: Site, tab: Tab) -> None:
    job = await site.submit()
    await fill(tab, "job_events-id", job)
    await tab.press("Enter", "\r")
    assert '"state":"completed"' in await answered(tab, "job_events", "200 OK")


async def test_a_browser_shows_events_as_they_come_until_it_is_told_to_stop(site: Site, tab: Tab) -> None:
    await click(tab, "all_events", "send")
    await tab.until("document.querySelector('#all_events .answer').textContent.startsWith(': here')")
    job = await site.submit()
    await tab.until(f"document.querySelector('#all_events .answer').textContent.includes({job!r})")
    await tab.run("document.querySelector('#all_events .stop').focus()")
    await tab.press("Enter", "\r")
    assert job in await answered(tab, "all_events", "stopped")
    assert await tab.run("document.activeElement.className") == "send", "the keyboard is not lost with the button"


async def test_a_browser_sends_nothing_while_a_required_field_is_empty(tab: Tab) -> None:
    await click(tab, "read_job", "send")
    assert await tab.run("document.activeElement.id") == "read_job-id"
    assert await shown(tab, "read_job", "status") == ""


async def test_another_content_type_has_another_example_unless_something_was_typed(tab: Tab) -> None:
    async def choose(media: str) -> str:
        await tab.run(f"document.getElementById('submit_jobs-media').value = {media!r}")
        await tab.run("document.getElementById('submit_jobs-media').dispatchEvent(new Event('input', {bubbles: true}))")
        text: str = await tab.run("document.getElementById('submit_jobs-body').value")
        return text

    assert await choose("application/x-ndjson") == '{"kind":"…"}'
    assert "Content-Type: application/x-ndjson" in await shown(tab, "submit_jobs", "curl")
    await fill(tab, "submit_jobs-body", "mine")
    assert await choose("application/json") == "mine"


async def test_an_answer_is_text_and_the_key_is_nowhere(site: Site, tab: Tab) -> None:
    mark = "<b id=bad>"
    await site.ask("POST", "/v1/jobs", {"kind": "add", "arguments": {"a": 1}, "options": {"tags": [mark]}})
    await fill(tab, "list_jobs-tag", mark)
    await tab.press("Enter", "\r")
    assert mark in await answered(tab, "list_jobs", "200 OK")
    assert await tab.run("document.getElementById('bad') === null")
    assert {url.partition("/v1/")[0] for url in tab.urls} == {site.url}
    kept = await tab.run("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
    page = await tab.run("document.documentElement.outerHTML")
    assert site.keys["operator*"] not in f"{kept}{page}{tab.urls}"

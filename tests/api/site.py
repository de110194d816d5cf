"""A server on a free port, its application, keys to it, and a client: what the tests of the API ask."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from mainspring import App, Context
from mainspring.access.keys import make_key
from mainspring.access.roles import Role
from mainspring.app.serving import Serving
from mainspring.config import ServeSettings, serve_settings
from mainspring.store.service import ALL_TENANTS, Quota, TenantRecord

JSON = {"Content-Type": "application/json"}
PROBLEM = "application/problem+json"
UNKNOWN = "01900000-0000-7000-8000-000000000000"


class Answer:
    """What came back."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"<{self.status} {self.body[:500]!r}>"


class Site:
    """A running server. `keys`: by role of tenant "default"; "admin*" and "worker*" are of all tenants, "other-ROLE" of another."""

    def __init__(self, app: App, serving: Serving, client: aiohttp.ClientSession) -> None:
        self.app = app
        self.serving = serving
        self.client = client
        self.url = serving.address
        self.keys: dict[str, str] = {}

    async def ask(
        self,
        method: str,
        path: str,
        document: Any = None,
        *,
        key: str | None = "operator",
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        given = dict(headers or {})
        if key is not None and self.keys:
            given["Authorization"] = f"Bearer {self.keys[key]}"
        body = data
        if document is not None:
            body = json.dumps(document).encode()
        if body is not None:
            given.setdefault("Content-Type", "application/json")
        sent = None if body is None else io.BytesIO(body)  # aiohttp warns of large bytes
        async with self.client.request(method, self.url + path, data=sent, headers=given) as response:
            return Answer(response.status, response.headers, await response.read())

    async def submit(self, kind: str = "add", key: str = "operator", **options: Any) -> str:
        document = {"kind": kind, "arguments": {"a": 1, "b": 2} if kind == "add" else {}, "options": options}
        answer = await self.ask("POST", "/v1/jobs", document, key=key)
        assert answer.status == 201, answer
        found: str = answer.document["id"]
        return found

    async def count(self) -> int:
        """How many jobs there are, in whatever state."""
        return sum((await self.app.store.count_jobs()).values())

    async def ended(self, job: str, key: str = "operator") -> Any:
        answer = await self.ask("GET", f"/v1/jobs/{job}/wait?timeout_s=20", key=key)
        assert answer.status == 200, answer
        return answer.document


def make_app(store: str | None = None) -> App:
    app = App(store)

    @app.job(queue="sums")
    async def add(a: int, b: int = 0) -> int:
        return a + b

    @app.job(retries=0)
    async def broken() -> None:
        raise ValueError("as it must be")

    @app.job()
    async def hold(ctx: Context) -> None:
        await asyncio.Event().wait()

    @app.schedule("0 9 1 1 *", name="yearly", arguments={"a": 1})
    @app.job(name="yearly")
    async def yearly(a: int) -> int:
        return a

    return app


async def make_keys(app: App) -> dict[str, str]:
    now = app.store.clock.now()
    wanted = {str(role): (role, "default") for role in Role} | {f"other-{role}": (role, "other") for role in Role}
    wanted |= {f"{role}*": (role, ALL_TENANTS) for role in Role}
    made = {name: make_key(name, role, tenant, now=now, created_by="test") for name, (role, tenant) in wanted.items()}
    await app.store.put_tenants([TenantRecord(name, Quota(), now) for name in ("default", "other")])
    await app.store.insert_keys([record for _, record in made.values()])
    return {name: text for name, (text, _) in made.items()}


@asynccontextmanager
async def running(app: App, settings: ServeSettings | None = None, **client: Any) -> AsyncIterator[Site]:
    """Serve an application until the block ends."""
    serving = Serving(settings or serve_settings(port=0, environ={}))
    ready = asyncio.Event()
    task = asyncio.create_task(app.run(signals=False, slots=4, grace=0, ready=ready.set, serving=serving))
    waiting = asyncio.ensure_future(ready.wait())
    await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        await task
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30), **client) as session:
            site = Site(app, serving, session)
            if serving.settings.keys:
                site.keys = await make_keys(app)
            yield site
    finally:
        app.stop()
        await task

"""Secrets, from setting one to the function that uses it; and that nobody else sees it."""

from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mainspring import App, Context, InvalidError, JobFailedError
from mainspring.app.handle import Job
from mainspring.core.options import parse_options
from mainspring.core.partition import format_id
from mainspring.errors import ForbiddenError, NotFoundError, SecretsError
from mainspring.secrets.keys import VARIABLE, parse_keys
from mainspring.secrets.rotation import rotate
from mainspring.testing import ManualNode
from mainspring.verbs import documents as d
from service.chatting import chat, chat_async
from service.serving import Served, served
from service.test_workers import worker_key, working
from service.vaults import NEW, OLD, TOKEN, Vaulted, vaulted

__all__ = ["vaulted"]


async def test_a_job_gets_the_value_and_nobody_else_does(vaulted: Vaulted) -> None:
    async with vaulted.node() as node:
        verbs = vaulted.app.verbs("default")
        made = await verbs.secrets.set("api-token", TOKEN)
        assert (made.name, made.tenant, made.key) == ("api-token", "default", "old")
        job = await vaulted.use.submit()
        await node.tick()
        assert await job.result() == len(TOKEN)
        assert vaulted.ran == [TOKEN]
        shown = await verbs.jobs.read(job.id)
        assert shown.secrets == {"TOKEN": "api-token"}
        audited = await verbs.audit.list()
        assert [(record.action, record.target) for record in audited] == [("set_secret", "api-token")]
        listed = await verbs.secrets.list()
        assert TOKEN not in repr((made, shown, audited, listed)) + vaulted.dump()


async def test_what_a_failing_function_says_is_masked(vaulted: Vaulted) -> None:
    async with vaulted.node() as node:
        await vaulted.app.verbs("default").secrets.set("api-token", TOKEN)
        job = await vaulted.betray.submit()
        await node.tick()
        with pytest.raises(JobFailedError, match=r"cannot log in with '\*\*\*'") as failed:
            await job.result()
        assert failed.value.traceback is not None
        assert TOKEN not in failed.value.traceback + vaulted.dump()


async def test_a_secret_that_is_missing_fails_the_job_before_a_worker_sees_it(vaulted: Vaulted) -> None:
    async with vaulted.node() as node:
        jobs = vaulted.app.verbs("default").jobs
        job = await vaulted.use.options(retries=5).submit()
        await node.tick()
        with pytest.raises(JobFailedError, match="has no secret 'api-token': set it") as failed:
            await job.result()
        assert failed.value.reason == "secrets"
        assert vaulted.ran == []
        assert (await jobs.read(job.id)).failures == 1
        await vaulted.app.verbs("default").secrets.set("api-token", TOKEN)
        await jobs.retry(job.id, d.JobChange())
        await node.tick()
        assert await job.result() == len(TOKEN)


async def test_a_changed_value_reaches_the_next_job(vaulted: Vaulted) -> None:
    async with vaulted.node() as node:
        secrets = vaulted.app.verbs("default").secrets
        for value in ("first value", "second value"):
            await secrets.set("api-token", value)
            await vaulted.use.submit()
            await node.tick()
        await secrets.delete("api-token")
        job = await vaulted.use.submit()
        await node.tick()
        assert vaulted.ran == ["first value", "second value"]
        assert (await job.status()).reason == "secrets"
        with pytest.raises(NotFoundError):
            await secrets.delete("api-token")
        with pytest.raises(InvalidError, match="is a word of the API"):
            await secrets.set("rotate", TOKEN)


async def test_tenants_do_not_share_secrets(vaulted: Vaulted) -> None:
    async with vaulted.node() as node:
        for name in ("acme", "beta"):
            await vaulted.app.verbs().tenants.create(d.NewTenant(name=name))
        await vaulted.app.verbs("acme").secrets.set("api-token", "value of acme")
        jobs = [await vaulted.use.options(tenant=tenant).submit() for tenant in ("acme", "beta", "default")]
        await node.tick()
        assert [(await job.status()).state for job in jobs] == ["completed", "failed", "failed"]
        assert await vaulted.app.verbs("beta").secrets.list() == []
        with pytest.raises(NotFoundError):
            await vaulted.app.verbs("beta").secrets.delete("api-token")
        with pytest.raises(NotFoundError, match="there is no tenant 'gamma'"):
            await vaulted.app.verbs("gamma").secrets.set("api-token", TOKEN)


async def test_a_stolen_row_does_not_open_for_another_tenant(vaulted: Vaulted) -> None:
    async with vaulted.node() as node:
        await vaulted.app.verbs("default").secrets.set("api-token", TOKEN)
        (record,) = await vaulted.app.store.list_secrets()
        await vaulted.app.verbs("default").secrets.set("other", "other value")
        rows, _ = await vaulted.app.store.list_sealed("secret", b"-", "", 10)
        other = next(row for row in rows if row.place.endswith("/other"))
        assert await vaulted.app.store.replace_sealed("secret", [(other, record.sealed)], "old") == 1
        job = await vaulted.use.options(secrets={"TOKEN": "other"}).submit()
        await node.tick()
        assert vaulted.ran == []
        with pytest.raises(JobFailedError, match="cannot be opened: a sealed value does not open"):
            await job.result()


async def test_without_keys_every_try_says_what_to_do(vaulted: Vaulted, monkeypatch: pytest.MonkeyPatch) -> None:
    async with vaulted.node():
        await vaulted.app.verbs("default").secrets.set("api-token", TOKEN)
    monkeypatch.delenv(VARIABLE)
    async with vaulted.node() as node:
        verbs = vaulted.app.verbs("default")
        for refused in (verbs.secrets.set("x", TOKEN), verbs.secrets.rotate(), verbs.tenants.seal("default", True)):
            with pytest.raises(SecretsError, match="there are no keys for secrets here: set MAINSPRING_SECRET_KEYS"):
                await refused
        assert [secret.name for secret in await verbs.secrets.list()] == ["api-token"]
        job = await vaulted.use.options(retries=1).submit()
        await node.tick()
        assert (await job.status()).state == "pending"  # perhaps another node has the keys
        await node.advance("10m")
        with pytest.raises(JobFailedError, match="'api-token' cannot be opened: there are no keys"):
            await job.result()


async def test_a_page_that_others_keep_changing_is_not_left_behind(
    vaulted: Vaulted, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with vaulted.node():
        await vaulted.app.verbs("default").secrets.set("api-token", TOKEN)
        keys, store = parse_keys(VARIABLE, f"{NEW},{OLD}"), vaulted.app.store

        async def others_were_faster(*_: object) -> int:
            return 0

        with monkeypatch.context() as patch:
            patch.setattr(store, "replace_sealed", others_were_faster)
            step = await rotate(store, keys)
        assert (step.changed, step.unreadable, step.next) == (0, 0, "secret:")
        assert (await rotate(store, keys, step.next)).changed == 1


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"2x": "a"}, "'2x' is no name for a variable"),
        ({"A B": "a"}, "'A B' is no name for a variable"),
        ({"A": ""}, "secrets.A: has 0 characters"),
        (["A"], "expected names like"),
        ({f"A{n}": "a" for n in range(33)}, "at most 32"),
    ],
)
def test_names_that_a_job_cannot_give(given: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidError, match=problem) as refused:
        parse_options(secrets=given)
    assert refused.value.field.startswith("secrets")


@pytest.fixture
async def server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setenv(VARIABLE, f"{OLD},{NEW}")
    async with served(App(f"sqlite:///{folder}/jobs.db"), keys=True) as made:
        monkeypatch.delenv(VARIABLE)  # the server has them, and needs them no more
        yield made


async def test_a_worker_at_a_server_gets_the_secrets_of_its_jobs(server: Served) -> None:
    """The keys stay at the server."""
    app = App(server.url, key=await worker_key(server))
    got = []

    @app.job(secrets={"TOKEN": "api-token"})
    async def use(context: Context) -> int:
        got.append(context.secret("TOKEN"))
        return 1

    async with App(server.url, key=server.key) as admin, working(app):
        jobs, secrets = admin.verbs("default").jobs, admin.verbs("default").secrets
        await secrets.set("api-token", TOKEN)
        (made,) = await jobs.submit([await jobs.draft(d.SubmitRequest(kind="use"))])
        assert (await jobs.wait(format_id(made.id))).state == "completed"
        assert got == [TOKEN]


async def test_secrets_at_a_server(server: Served) -> None:
    async with App(server.url, key=server.key) as admin:
        secrets = admin.verbs("default").secrets
        await secrets.set("api-token", TOKEN)
        assert [(shown.name, shown.key) for shown in await secrets.list()] == [("api-token", "old")]
        step = await admin.verbs().secrets.rotate()
        assert (step.key, step.changed, step.unreadable) == ("old", 0, 0)
        with pytest.raises(InvalidError, match="is not where an earlier step ended"):
            await admin.verbs().secrets.rotate("nowhere")
        with pytest.raises(InvalidError, match="fewer than 4"):
            await secrets.set("api-token", "abc")
        await secrets.delete("api-token")
        assert await secrets.list() == []


async def test_who_may_do_what_with_secrets(server: Served) -> None:
    async with App(server.url, key=server.key) as admin:
        await admin.verbs().tenants.create(d.NewTenant(name="acme"))
        for role, may_list in (("viewer", False), ("submitter", False), ("operator", True)):
            made = await admin.verbs("acme").keys.create(d.NewKey(name=role, role=role))
            async with App(server.url, key=made.key) as other:
                secrets = other.own_verbs().secrets
                for refused in (secrets.set("x", TOKEN), secrets.delete("x"), secrets.rotate()):
                    with pytest.raises(ForbiddenError):
                        await refused
                if may_list:
                    assert await secrets.list() == []
                else:
                    with pytest.raises(ForbiddenError):
                        await secrets.list()
        boss = await admin.verbs("acme").keys.create(d.NewKey(name="boss", role="admin"))
        async with App(server.url, key=boss.key) as other:
            await other.own_verbs().secrets.set("x", TOKEN)
            with pytest.raises(ForbiddenError):  # the keys are the whole installation's
                await other.own_verbs().secrets.rotate()


@pytest.mark.parametrize("pool", ["async", "process"])
async def test_logs_of_a_function_are_masked(folder: Path, monkeypatch: pytest.MonkeyPatch, pool: str) -> None:
    monkeypatch.setenv(VARIABLE, OLD)
    app = App(f"sqlite:///{folder}/jobs.db")
    chatter = app.job(secrets={"TOKEN": "api-token"}, pool=pool)(chat_async if pool == "async" else chat)
    async with ManualNode(app, own_store=True) as node:
        await app.verbs("default").secrets.set("api-token", TOKEN)
        job = await chatter.submit()
        await node.tick()
        said = "".join([part.text async for part in job.logs()])
        assert said == f"token: ***\nbasic {b64encode(b'me:').decode()}***\n"
        await _assert_nowhere(app, job)


async def test_a_script_has_its_secret_as_a_variable_and_nobody_reads_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, OLD)
    app = App(f"sqlite:///{folder}/jobs.db")
    async with ManualNode(app, own_store=True, types=["script"]) as node:
        await app.verbs("default").secrets.set("api-token", TOKEN)
        script = app.script.options(secrets={"TOKEN": "api-token"}, retries=0)
        good = await script.submit(["sh", "-c", 'echo "have $TOKEN"; echo ${#TOKEN}'])
        await node.tick()
        assert (await good.result()).stdout == f"have ***\n{len(TOKEN)}\n"
        assert "".join([part.text async for part in good.logs()]) == f"have ***\n{len(TOKEN)}\n"
        bad = await script.submit(["sh", "-c", 'echo "cannot use $TOKEN" >&2; exit 3'])
        await node.tick()
        with pytest.raises(JobFailedError, match=r"(?s)exit code 3.*cannot use \*\*\*"):
            await bad.result()
        for job in (good, bad):
            await _assert_nowhere(app, job)


async def _assert_nowhere(app: App, job: Job[Any]) -> None:
    """Neither in the store nor among the objects."""
    objects = app.engine.objects
    kept = [await objects.read(job.key, found.name) for found in await objects.find(job.key)]
    assert kept
    shown = await app.verbs().jobs.read(job.id)
    for text in (TOKEN, b64encode(TOKEN.encode()).decode().rstrip("=")):
        assert text not in repr((kept, shown))

"""Job types as kinds: reserved names, who runs them, and arguments that are checked wherever they come from."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import Raw

from cli.harness import NOW, record
from mainspring import App, InvalidError
from mainspring.config import run_settings
from mainspring.core.lane import Lane
from mainspring.execute.types import catalogue
from mainspring.execute.types.catalogue import PLACES, chosen, read_names, with_types
from mainspring.store.contract import NodeRecord, SessionRecord
from mainspring.testing import ManualNode
from mainspring.verbs import documents as d
from mainspring.verbs.declarations import read_declarations
from mainspring.verbs.explaining import causes
from mainspring.verbs.faces import Verbs
from mainspring.verbs.facts import Facts
from mainspring.wire import WorkerInfo

COMMAND = {"command": ["echo", "hello"]}


@pytest.fixture
async def app(folder: Path) -> AsyncIterator[App]:
    made = App(f"sqlite:///{folder}/jobs.db")
    async with made:
        yield made


@pytest.mark.parametrize("name", PLACES)
def test_a_function_cannot_have_the_name_of_a_type(name: str) -> None:
    with pytest.raises(InvalidError, match=f"name: '{name}' is the name of a job type"):
        App().job(name=name)(lambda: None)
    with pytest.raises(InvalidError, match=r"kind: .* is the name of a job type"):
        read_declarations(d.Declarations(kinds=[d.KindDeclaration(name=name)]), None)


@pytest.mark.parametrize(
    ("name", "done"),
    [
        ("http", "'aiohttp' in sys.modules and trusted.cache_info().currsize"),
        ("script", "ability.cache_info().currsize"),
    ],
)
def test_what_takes_a_moment_once_is_done_before_the_first_job(name: str, done: str) -> None:
    """A job would take that moment in the event loop, where everything else waits for it."""
    code = f"""
import sys
from mainspring.execute.http.exchange import trusted
from mainspring.execute.sandbox.ability import ability
from mainspring.execute.types.catalogue import why_not
assert why_not({name!r}) is not None or ({done})
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_who_runs_no_type_imports_nothing_of_them() -> None:
    code = """
import asyncio, sys
from mainspring import App
from mainspring.testing import ManualNode
app = App()

@app.job()
async def work() -> None: ...

async def main() -> None:
    async with ManualNode(app) as node:
        await work.submit()
        await node.tick()

asyncio.run(main())
print([name for name in sys.modules if name.startswith(("mainspring.execute.types.", "mainspring.execute.sandbox"))])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "['mainspring.execute.types.catalogue']\n"


NAMES: dict[str, tuple[object, tuple[str, ...]]] = {
    "none": ("", ()),
    "text": ("script, http,script", ("script", "http")),
    "a list": (["sql"], ("sql",)),
    "all": ("all", ("all",)),
}


@pytest.mark.parametrize(("given", "names"), NAMES.values(), ids=NAMES.keys())
def test_types_are_asked_for_by_name(given: object, names: tuple[str, ...]) -> None:
    assert read_names("types", given) == names


@pytest.mark.parametrize("given", ["shell", "script,", "all,script", 5, [5], ["script", None]])
def test_what_is_no_type(given: object) -> None:
    with pytest.raises(InvalidError, match="types: "):
        read_names("types", given)


def test_the_environment_can_ask_for_types_and_the_argument_comes_before() -> None:
    environ = {"MAINSPRING_TYPES": "script"}
    assert run_settings(environ=environ).types == ("script",)
    assert run_settings(types=["http"], environ=environ).types == ("http",)
    assert run_settings(types=(), environ=environ).types == ()
    assert run_settings(environ={}).types == ()


def test_one_that_cannot_run_is_refused_by_name_and_left_out_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "why_not", {"sql": "no duck here"}.get)
    with pytest.raises(InvalidError, match="types: sql cannot run here: no duck here"):
        chosen(("script", "sql"))
    assert chosen(("all",)) == ["script", "http", "container"]
    assert with_types(App().registry, ("all",)).names() == {"script", "http", "container"}


async def test_a_worker_runs_those_that_it_was_told_to_and_says_so() -> None:
    app = App()
    async with ManualNode(app, types=["script", "http"]) as node:
        (worker,) = await app.verbs().workers.list()
        assert worker.kinds == ["http", "script"]
        job = await app.script.submit(["echo", "hello"])
        await node.tick()
        result = await job.result()
        assert (result.exit_code, result.stdout) == (0, "hello\n")


async def test_a_schedule_of_a_type() -> None:
    app = App()
    app.schedule("0 3 * * *", name="nightly", arguments=COMMAND)(app.script)
    async with ManualNode(app, types=["script"]) as node:
        await node.advance("4h")
        (schedule,) = await app.schedules.list()
        assert (schedule.name, schedule.kind, schedule.runs) == ("nightly", "script", 1)


async def test_jobs_of_a_type_share_a_batch(app: App) -> None:
    first, second = app.script.job(["a"]), app.script.job(["b"])
    assert first.options is second.options


WRONG: dict[str, tuple[str, dict[str, object], str]] = {
    "missing": ("script", {}, "arguments.command: is missing"),
    "unknown": ("script", COMMAND | {"shell": True}, "arguments.shell: is not a parameter"),
    "a type": ("script", {"command": "ls"}, "arguments.command: expected `array`, got `str`"),
    "a range": ("script", COMMAND | {"limits": {"memory_mb": 0}}, "arguments.limits.memory_mb: expected `int` >= 1"),
    "a check of its own": ("script", {"command": []}, "arguments.command: names no program"),
    "http": ("http", {"url": "ftp://x"}, "arguments.url: "),
    "sql": ("sql", {}, "arguments."),
    "container": ("container", {}, "arguments.image: "),
}


@pytest.mark.parametrize(("kind", "arguments", "problem"), WRONG.values(), ids=WRONG.keys())
async def test_arguments_are_checked_at_submit_without_anybodys_code(
    app: App, kind: str, arguments: dict[str, object], problem: str
) -> None:
    verbs = app.verbs("default")
    with pytest.raises(InvalidError) as caught:
        await verbs.jobs.draft(d.SubmitRequest(kind=kind, arguments=arguments))
    assert str(caught.value).startswith(problem)
    schedule = d.NewSchedule(name="x", kind=kind, rule={"cron": "0 3 * * *"}, arguments=arguments)
    for refused in (verbs.schedules.create(schedule), _from_template(verbs, kind, arguments)):
        with pytest.raises(InvalidError) as caught:
            await refused
        assert str(caught.value).startswith(problem)
    with pytest.raises(InvalidError) as caught:
        read_declarations(d.Declarations(schedules=[schedule]), None)
    assert str(caught.value).startswith(problem)


async def _from_template(verbs: Verbs, kind: str, arguments: dict[str, object]) -> None:
    await verbs.templates.put("x", d.TemplateDefinition(kind=kind, arguments=arguments))
    await verbs.templates.submit("x", d.TemplateSubmit())


async def test_a_type_needs_no_declaration_and_a_batch_says_which_is_wrong(app: App) -> None:
    drafts = await app.engine.verbs("default", app.actor).jobs.drafts(
        [
            d.RawSubmit(kind="script", arguments=_raw(COMMAND), options=_raw({})),
            d.RawSubmit(kind="script", arguments=_raw({}), options=_raw({})),
        ]
    )
    assert [isinstance(draft, InvalidError) for draft in drafts] == [False, True]


async def test_a_change_is_checked_too(app: App) -> None:
    job = await app.script.options(delay="1h").submit(["echo"])
    jobs = app.verbs("default").jobs
    with pytest.raises(InvalidError, match=r"arguments\.command: is missing"):
        await jobs.update(job.id, d.JobChange(arguments={}))
    with pytest.raises(InvalidError, match=r"arguments\.colour: is not a parameter"):
        await jobs.clone(job.id, [d.Variation(arguments={"colour": 1})])


NODE = NodeRecord(b"n" * 16, "host-1", NOW, NOW)


def test_why_nobody_runs_it() -> None:
    job = record(kind="script")
    told = Facts(now=NOW, record=job, lane=Lane("default", "mail", "script"))
    (cause,) = causes(told)
    assert cause.text == "No worker is running: start one with `mainspring worker --types script`."
    other = SessionRecord(b"w" * 16, NODE.id, "w1", NOW, WorkerInfo(name="w1", slots=2, kinds=frozenset({"send"})), 0)
    (cause,) = causes(Facts(now=NOW, record=job, lane=told.lane, nodes=[NODE], workers=[other]))
    assert cause.text.startswith(
        "No running worker runs the type 'script': start one with `mainspring worker --types script`"
    )


def _raw(value: object) -> Raw:
    return Raw(json.dumps(value).encode())

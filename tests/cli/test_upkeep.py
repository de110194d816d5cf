"""`mainspring migrate` and `mainspring doctor`."""

import asyncio
import os
from pathlib import Path

import pytest

from cli.harness import Cli, Ran
from mainspring import App
from mainspring.store.sqlite import database


def status(ran: Ran) -> dict[str, str]:
    return {check["check"]: check["status"] for check in ran.document["checks"]}


def test_migrate_says_what_it_did(bare: Cli, workplace: Path) -> None:
    first = bare("migrate", "--json").document
    assert first["applied"][0] == "0001 tables"
    assert first["store"] == str(workplace / "mainspring.db")
    assert "up to date" in bare("migrate").out


def test_a_healthy_store(cli: Cli) -> None:
    ran = cli("doctor", "--json")
    assert ran.code == 0
    assert status(ran) == dict.fromkeys(status(ran), "ok") | {"workers": "warn"}
    assert {"python", "sqlite", "store", "writable", "schema", "integrity", "wal", "nodes", "clock"} <= status(
        ran
    ).keys()
    assert "0 problems, 1 warning" in cli("doctor").out


def test_where_objects_are(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def objects() -> dict[str, str]:
        checks: list[dict[str, str]] = cli("doctor", "--json").document["checks"]
        return next(check for check in checks if check["check"] == "objects")

    here = Path.cwd()
    assert objects() == {
        "check": "objects",
        "status": "ok",
        "found": f"{here}/mainspring.db.objects, writable",
        "todo": "",
    }
    assert not Path("mainspring.db.objects").exists()
    monkeypatch.setenv("MAINSPRING_OBJECTS", "mainspring.db/below")
    assert objects()["status"] == "fail"
    assert "MAINSPRING_OBJECTS" in objects()["found"]


def test_no_store(bare: Cli) -> None:
    ran = bare("doctor", "--json")
    assert (ran.code, status(ran)["store"]) == (1, "fail")
    assert not Path("mainspring.db").exists()


def test_files_that_are_not_ours(bare: Cli) -> None:
    Path("text.db").write_text("certainly not a database" * 100)
    assert status(bare("doctor", "--store", "sqlite:///text.db", "--json"))["store"] == "fail"
    assert "not a usable SQLite file" in bare.fails(3, "jobs", "list", "--store", "sqlite:///text.db")
    assert bare.fails(3, "migrate", "--store", "sqlite:///none/x.db")


def test_schemas_of_another_version(cli: Cli) -> None:
    connection = database.connect(Path("mainspring.db"))
    connection.execute("insert into migration (number, name, checksum) values (9999, 'later', 'x')")
    connection.close()
    assert status(cli("doctor", "--json"))["schema"] == "fail"
    assert "newer" in cli.fails(3, "jobs", "list")


def test_what_waits_for_nobody_and_who_left_without_a_word(cli: Cli) -> None:
    async def leave(app: App) -> None:
        await app.store.insert_node(os.urandom(16), "gone-1", -1.0)

    cli.within(leave)
    cli("submit", "send", "--args", '{"to": "a"}', "--label", "gpu")
    cli("queues", "pause", "mail")
    ran = cli("doctor", "--json")
    found = {check["check"]: check["found"] for check in ran.document["checks"]}
    assert (status(ran)["waiting"], status(ran)["nodes"], status(ran)["queues"]) == ("warn", "warn", "warn")
    assert "send with gpu" in found["waiting"]
    assert "gone-1" in found["nodes"]
    assert ran.code == 0


def test_a_running_worker_is_seen(cli: Cli) -> None:
    async def look(app: App) -> None:
        running = asyncio.create_task(app.run(signals=False, slots=7))
        from tasks import send  # type: ignore[import-not-found]

        await (await send.submit("a")).result(timeout=10)  # then a worker has registered
        ran = await asyncio.to_thread(cli, "doctor", "--json")
        workers = [check for check in ran.document["checks"] if check["check"] == "workers"]
        assert workers[0]["found"] == "1 worker, 0 of 7 slots in use"
        app.stop()
        await running

    cli.within(look)

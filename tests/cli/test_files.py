"""`mainspring jobs outputs|download`, and what other commands say of large results."""

import hashlib
from pathlib import Path

from msgspec import json

from cli.harness import Cli
from cli.test_jobs import submit
from mainspring import App
from mainspring.core import objects
from mainspring.core.partition import parse_id
from mainspring.store.contract import Pick, Ready, Settlement
from mainspring.wire import Stored

FILES = {"result": b'["' + b"x" * 100_000 + b'"]', "sub/plan.txt": b"plan"}


def left(cli: Cli) -> str:
    """A job that has completed, with files."""
    job = submit(cli)
    key = parse_id(job)

    async def complete(app: App) -> None:
        store, node, session = app.store, b"n" * 16, b"s" * 16
        await store.insert_node(node, "n", 60.0)
        await store.insert_session(session, node, "s")
        (record,) = await store.read_jobs([key])
        assert record is not None
        ready = Ready(record.rank, key, 0, record.lane)
        (assigned,) = await store.assign_jobs([Pick(session, [ready])])
        assert assigned.won
        for name, data in FILES.items():
            await app.engine.objects.put(key, objects.output(1, name), data)
        outputs = [Stored(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in FILES.items()]
        done = Settlement(key, 1, "completed", outputs=json.encode(outputs))
        assert await store.settle_attempts(session, [done]) == [True]

    cli.within(complete)
    return job


def test_files_are_listed_and_downloaded(cli: Cli) -> None:
    job = left(cli)
    found = cli("jobs", "outputs", job, "--json").document["outputs"]
    assert [(each["name"], each["size"]) for each in found] == [("result", 100_004), ("sub/plan.txt", 4)]
    assert "sub/plan.txt" in cli("jobs", "outputs", job).out
    assert cli("jobs", "download", job, "sub/plan.txt").out == "plan.txt\n"
    assert Path("plan.txt").read_text() == "plan"
    answer = cli("jobs", "download", job, "result", "--to", "all.json", "--json").document
    assert answer == {"path": str(Path("all.json").absolute())}
    assert Path("all.json").read_bytes() == FILES["result"]
    assert "has no output 'other'; it has: 'result', 'sub/plan.txt'" in cli.fails(1, "jobs", "download", job, "other")


def test_a_job_without_files(cli: Cli) -> None:
    job = submit(cli)
    assert cli("jobs", "outputs", job).out == "no files\n"
    cli.fails(1, "jobs", "download", job, "result")


def test_a_large_result_is_not_printed_but_named(cli: Cli) -> None:
    job = left(cli)
    for command in ("wait", "show"):
        told = cli("jobs", command, job).out
        assert f"100.0 kB: mainspring jobs download {job} result" in told
    assert "sub/plan.txt  4 bytes" in cli("jobs", "show", job).out

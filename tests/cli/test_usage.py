"""`mainspring usage`, and what `jobs show` says of it."""

from msgspec import structs

from cli.harness import Cli
from mainspring import App
from mainspring.core.partition import parse_id
from mainspring.store.contract import Pick, Settlement
from mainspring.wire import Failure

EVERYWHERE = True
USED = b'{"cpu_s":1.5,"peak_mb":120.4,"written_bytes":5000000}'


def end(cli: Cli, client: str, attempt: Settlement) -> str:
    """A job of this client that ends like this."""
    job: str = cli("submit", "send", "--args", '{"to": "a"}', "--client", client).out.strip()

    async def settle(app: App) -> None:
        store = app.store
        await store.insert_node(job.encode(), "n", 60)
        await store.insert_session(job.encode(), job.encode(), "w")
        streams = [stream[:3] for stream in await store.list_streams(range(store.partitions))]
        ready = [r for jobs in await store.read_ready([(s, None) for s in streams], 9) for r in jobs]
        await store.assign_jobs([Pick(job.encode(), [r for r in ready if r.job == parse_id(job)])])
        assert await store.settle_attempts(job.encode(), [structs.replace(attempt, job=parse_id(job))]) == [True]

    cli.within(settle)
    return job


def test_sums_are_shown_by_client_and_kind(cli: Cli) -> None:
    assert cli("usage").out.startswith("nothing ended since")
    end(cli, "acme", Settlement(b"", 1, "completed", usage=USED))
    end(cli, "other", Settlement(b"", 1, "completed", usage=b'{"cpu_s":7.0}'))
    found = cli("usage", "--json").document
    assert [(each["client"], each["kind"], each["cpu_s"]) for each in found["sums"]] == [
        ("other", "send", 7.0),
        ("acme", "send", 1.5),
    ]
    assert (found["total"]["jobs"], found["total"]["peak_mb"], found["total"]["read_bytes"]) == (2, 120.4, None)
    said = cli("usage", "--by", "kind").out
    assert "8.5 s" in said
    assert "120 MB" in said
    assert "5.0 MB" in said
    assert "acme" not in said


def test_times(cli: Cli) -> None:
    end(cli, "acme", Settlement(b"", 1, "completed", usage=USED))
    assert cli("usage", "--since", "2020-01-01T00:00:00Z", "--json").document["total"]["jobs"] == 1
    assert cli("usage", "--since", "2h", "--until", "1h", "--json").document["total"]["jobs"] == 0
    assert cli.fails(2, "usage", "--since", "yesterday").startswith("since: ")
    assert cli.fails(2, "usage", "--since", "2020-01-01T00:00:00").startswith("since: ")
    assert cli.fails(2, "usage", "--since", "1h", "--until", "2h").startswith("until: ")
    assert cli.fails(2, "usage", "--by", "colour").startswith("by: ")


def test_a_job_shows_what_its_attempts_used(cli: Cli) -> None:
    failure = Failure("error", "ValueError", "no")
    job = end(cli, "acme", Settlement(b"", 1, "failed", failure=failure, reason="error", counts="failure", usage=USED))
    document = cli("jobs", "show", job, "--json").document
    assert document["usage"]["peak_mb"] == 120.4
    assert document["errors"][0]["usage"] == document["usage"]
    assert cli("jobs", "show", job).out.count("1.5 s of CPU, 120 MB at most, 5.0 MB written") == 2

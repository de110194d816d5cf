"""`mainspring jobs list|show|wait|cancel|retry|reprioritise`."""

import json
import uuid

from cli.harness import Cli
from mainspring.core.partition import make_id

EVERYWHERE = True

NOBODY = str(uuid.UUID(bytes=make_id(1, 2, 3)))


def submit(cli: Cli, kind: str = "send", args: str = '{"to": "a"}', *options: str) -> str:
    ran = cli("submit", kind, "--args", args, *options)
    assert ran.code == 0, ran.err
    return ran.out.strip()


def test_list_is_newest_first_and_pages(cli: Cli) -> None:
    ids = {submit(cli) for _ in range(5)}
    page = cli("jobs", "list", "--limit", "3", "--json").document
    rest = cli("jobs", "list", "--limit", "3", "--before", page["before"], "--json").document
    assert {job["id"] for job in page["jobs"] + rest["jobs"]} == ids
    assert rest["before"] is None
    assert page["jobs"][0]["created_at"] >= page["jobs"][-1]["created_at"]
    assert "--before" in cli("jobs", "list", "--limit", "3").out


def test_list_filters(cli: Cli) -> None:
    mail, other = submit(cli), submit(cli, "broken", '{"why": "x"}', "--tag", "urgent", "--tenant", "t")
    cli("jobs", "cancel", other)

    def found(*options: str) -> list[str]:
        return [job["id"] for job in cli("jobs", "list", "--json", *options).document["jobs"]]

    assert found("--queue", "mail") == [mail]
    assert found("--kind", "broken") == [other]
    assert found("--tag", "urgent") == [other]
    assert found("--state", "cancelled") == [other]
    assert found("--tenant", "t") == [other]
    assert found("--schedule", "report") == []
    assert cli("jobs", "list", "--kind", "nope").out == "no jobs\n"
    assert "none of" in cli.fails(2, "jobs", "list", "--state", "done")
    assert "limit" in cli.fails(2, "jobs", "list", "--limit", "0")
    cli.fails(2, "jobs", "list", "--before", "x")


def test_a_job_of_another_tenant_than_the_one_named_is_none(cli: Cli) -> None:
    job = submit(cli, "send", '{"to": "a"}', "--tenant", "t")
    for words in (("show",), ("explain",), ("wait",), ("cancel",), ("retry",), ("reprioritise", "--priority", "9")):
        assert f"no job {job}" in cli("jobs", *words, job, "--tenant", "other").err
    assert cli("jobs", "show", job, "--tenant", "t", "--json").document["state"] == "pending"
    assert cli("jobs", "cancel", job, "--tenant", "t").code == 0


def test_list_for_people(cli: Cli) -> None:
    job = submit(cli, "send", '{"to": "a"}', "--delay", "2h")
    lines = cli("jobs", "list").out.splitlines()
    assert lines[0].split()[:4] == ["id", "kind", "queue", "state"]
    assert job in lines[1]
    assert "due in" in lines[1]
    assert all(line == line.rstrip() for line in lines)


def test_show_has_everything(cli: Cli) -> None:
    good, bad = submit(cli), submit(cli, "broken", '{"why": "out of\\u001b[31m order"}')
    cli.work_off()
    done = cli("jobs", "show", good, "--json").document
    assert (done["state"], done["result"], done["errors"]) == ("completed", "a x1", [])
    assert done["finished_at"].endswith("Z")
    failed = cli("jobs", "show", bad, "--json").document
    assert (failed["state"], failed["reason"], failed["result"]) == ("failed", "error", None)
    (error,) = failed["errors"]
    assert (error["attempt"], error["type"], error["reason"]) == (1, "ValueError", "error")
    assert "in broken" in error["traceback"]
    page = cli("jobs", "show", bad).out
    assert "attempt 1 failed (error)" in page
    assert "ValueError: out of\\x1b[31m order" in page
    assert "\x1b" not in page
    assert "no job" in cli.fails(1, "jobs", "show", NOBODY)
    cli.fails(2, "jobs", "show", "nonsense")
    cli.fails(2, "jobs", "show", str(uuid.uuid4()))


def test_wait_prints_the_result(cli: Cli) -> None:
    good, bad = submit(cli), submit(cli, "broken", '{"why": "no"}')
    assert cli("jobs", "wait", good, "--timeout", "10ms").code == 4
    cli.work_off()
    assert cli("jobs", "wait", good).out == '"a x1"\n'
    assert cli("jobs", "wait", good, "--json").document["result"] == "a x1"
    ran = cli("jobs", "wait", bad, "--json")
    assert (ran.code, ran.document["state"], ran.document["error"]["message"]) == (1, "failed", "no")
    assert "ValueError: no" in ran.err
    assert "no job" in cli.fails(1, "jobs", "wait", NOBODY)


def test_cancel_many_and_say_what_became_of_each(cli: Cli) -> None:
    first, second = submit(cli), submit(cli)
    ran = cli("jobs", "cancel", first, second)
    assert (ran.code, ran.out.count("cancelled")) == (0, 2)
    again = cli("jobs", "cancel", first, NOBODY, "--json")
    assert again.code == 1
    assert [job["done"] for job in again.document["jobs"]] == [False, False]
    assert "has ended already" in again.err
    assert f"no job {NOBODY}" in again.err
    assert cli("jobs", "show", first, "--json").document["reason"] == "requested"


def test_retry_runs_failed_jobs_again(cli: Cli) -> None:
    bad = submit(cli, "broken", '{"why": "no"}')
    cli.work_off()
    assert cli("jobs", "retry", bad, "--json").document["jobs"] == [{"id": bad, "done": True, "state": "pending"}]
    assert cli("jobs", "show", bad, "--json").document["state"] == "pending"
    good = submit(cli)
    cli.work_off()
    assert "is completed: only failed and cancelled" in cli.fails(1, "jobs", "retry", good)


def test_reprioritise(cli: Cli) -> None:
    job = submit(cli)
    assert cli("jobs", "reprioritise", job, "--priority", "9").out.strip() == f"{job}  has priority 9"
    assert cli("jobs", "show", job, "--json").document["priority"] == 9
    assert "priority" in cli.fails(2, "jobs", "reprioritise", job, "--priority", "11")
    assert "priority" in cli.fails(2, "jobs", "reprioritise", job)
    cli("jobs", "cancel", job)
    assert "is cancelled" in cli.fails(1, "jobs", "reprioritise", job, "--priority", "1")


def test_json_is_one_line(cli: Cli) -> None:
    out = cli("jobs", "show", submit(cli), "--json").out
    assert out.count("\n") == 1
    json.loads(out)

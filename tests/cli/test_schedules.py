"""`mainspring schedules`."""

from cli.harness import Cli

EVERYWHERE = True


def test_list_show_and_next(cli: Cli) -> None:
    (listed,) = cli("schedules", "list", "--json").document["schedules"]
    assert (listed["name"], listed["cron"], listed["tz"], listed["kind"]) == (
        "report",
        "0 9 * * *",
        "Europe/Berlin",
        "report",
    )
    assert listed["next_at"].endswith("Z")
    shown = cli("schedules", "show", "report", "--json").document
    assert (shown["arguments"], shown["missed"], shown["origin"]) == ({"to": "daily"}, [], "code")
    assert cli("schedules", "list").out.splitlines()[1].startswith("report")
    page = cli("schedules", "show", "report").out
    assert "overlap" in page
    assert "Europe/Berlin" in page
    times = cli("schedules", "next", "report", "--count", "3", "--json").document["times"]
    assert len(times) == 3
    assert times == sorted(times)
    assert times[0] == shown["next_at"]
    assert "09:00:00 CE" in cli("schedules", "next", "report").out


def test_pause_and_resume(cli: Cli) -> None:
    assert cli("schedules", "pause", "report").out == "report is paused\n"
    assert cli("schedules", "list", "--json").document["schedules"][0]["next_at"] is None
    assert "paused" in cli("schedules", "list").out
    assert cli("schedules", "resume", "report", "--json").document["paused"] is False


def test_trigger_makes_a_job_and_keeps_the_overlap_rule(cli: Cli) -> None:
    job = cli("schedules", "trigger", "report", "--json").document["id"]
    assert cli("jobs", "show", job, "--json").document["schedule"] == "default/report"
    assert [j["id"] for j in cli("jobs", "list", "--schedule", "report", "--json").document["jobs"]] == [job]
    assert "overlap" in cli.fails(1, "schedules", "trigger", "report")


def test_a_trigger_with_the_same_key_finds_the_first(cli: Cli) -> None:
    trigger = ("schedules", "trigger", "report", "--key", "monday")
    made = cli(*trigger, "--json").document
    assert made == {"name": "report", "id": made["id"], "existed": False}
    assert cli(*trigger, "--json").document == made | {"existed": True}
    assert cli(*trigger).out == f"{made['id']} (was there already)\n"
    assert "key" in cli.fails(2, "schedules", "trigger", "report", "--key", "")


def test_backfill(cli: Cli) -> None:
    span = ("--from", "2026-01-01T00:00:00Z", "--to", "2026-01-03T23:00:00Z")
    assert cli("schedules", "backfill", "report", *span, "--json").document == {"name": "report", "occurrences": 3}
    assert len(cli("jobs", "list", "--schedule", "report", "--json").document["jobs"]) == 3
    assert "from" in cli.fails(2, "schedules", "backfill", "report", "--from", "x", "--to", "y")
    assert "time zone" in cli.fails(2, "schedules", "backfill", "report", "--from", "2026-01-01", "--to", "2026-01-02")
    cli.fails(2, "schedules", "backfill", "report", "--from", span[3], "--to", span[1])
    wide = ("--from", "1970-01-01T00:00:00Z", "--to", "2090-01-01T00:00:00Z")
    cli.fails(2, "schedules", "backfill", "report", *wide)
    cli.fails(2, "schedules", "backfill", "report")


def test_delete(cli: Cli) -> None:
    assert cli("schedules", "delete", "report", "--json").document == {"name": "report", "deleted": True}
    assert cli("schedules", "list").out == "no schedules\n"


def test_an_unknown_one_names_the_known_ones(cli: Cli) -> None:
    for verb in ("show", "next", "pause", "resume", "trigger", "delete"):
        assert "there are report" in cli.fails(1, "schedules", verb, "nope")
    assert "there is none yet" in cli.fails(1, "schedules", "show", "report", "--tenant", "other")
    cli.fails(2, "schedules", "next", "report", "--count", "0")
    cli.fails(2, "schedules", "list", "--tenant", "a\nb")

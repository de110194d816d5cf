"""`mainspring keys`, `tenants` and `audit`."""

import io
import json

import pytest

from cli.harness import Cli
from mainspring import App
from service.serving import served_apart

EVERYWHERE = True


def test_a_key_is_printed_once_and_listed_without_its_secret(cli: Cli) -> None:
    made = cli("keys", "create", "ci", "--role", "submitter", "--expires-in", "90d", "--requests-per-s", "5")
    key = made.out.strip()
    assert key.startswith("msk_")
    assert "\n" not in key
    assert "shown once" in made.err
    (listed,) = cli("keys", "list", "--json").document["keys"]
    assert (listed["name"], listed["role"], listed["tenant"], listed["requests_per_s"]) == (
        "ci",
        "submitter",
        "default",
        5,
    )
    shown = cli("keys", "list").out
    assert listed["id"] in shown
    assert "until 20" in shown
    assert key[-43:] not in shown


def test_keys_of_all_tenants(cli: Cli) -> None:
    made = cli("keys", "create", "root", "--role", "admin", "--tenant", "*", "--json").document
    assert (made["tenant"], made["role"]) == ("*", "admin")
    assert made["key"].startswith(f"msk_{made['id']}_")
    assert cli("keys", "list").out.startswith("no keys: make one")
    assert [key["id"] for key in cli("keys", "list", "--tenant", "*", "--json").document["keys"]] == [made["id"]]


def test_a_revoked_key_stays_in_the_list(cli: Cli) -> None:
    made = cli("keys", "create", "ci", "--role", "viewer", "--json").document
    assert cli("keys", "revoke", made["id"]).out == f"{made['id']} is revoked\n"
    assert "revoked 20" in cli("keys", "list").out
    assert "there is no key" in cli.fails(1, "keys", "revoke", "nothing")


def test_join_tokens(cli: Cli) -> None:
    made = cli("keys", "join-token", "build-7", "--json").document
    assert (made["role"], made["name"]) == ("join", "build-7")
    assert cli("keys", "join-token", "build-8", "--expires-in", "5m").out.startswith("msk_")


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("keys", "create", "ci", "--role", "owner"), "role"),
        (("keys", "create", "", "--role", "viewer"), "name"),
        (("keys", "create", "ci", "--role", "viewer", "--expires-in", "soon"), "expires_in"),
        (("keys", "join-token", "ci", "--expires-in", "0s"), "expires_in"),
        (("tenants", "create", "a/b"), "name"),
        (("tenants", "create", "a", "--queued", "many"), "queued"),
        (("tenants", "create", "a", "--submits-per-s", "nan"), "quota.submits_per_s"),
        (("tenants", "quota", "default", "--running", "-1"), "running"),
        (("audit", "list", "--limit", "0"), "limit"),
    ],
)
def test_what_is_wrong_is_named(cli: Cli, words: tuple[str, ...], field: str) -> None:
    assert cli.fails(2, *words).startswith(f"{field}: ")


def test_tenants_and_their_quotas(cli: Cli) -> None:
    assert "no tenants but 'default'" in cli("tenants", "list").out
    assert cli("tenants", "create", "acme", "--queued", "100").out == "acme is made\n"
    changed = cli("tenants", "quota", "acme", "--submits-per-s", "2.5", "--running", "3", "--json").document
    assert changed["quota"] == {"queued": 100, "running": 3, "schedules": None, "submits_per_s": 2.5}
    assert cli("tenants", "quota", "acme", "--queued", "none", "--json").document["quota"]["queued"] is None
    assert cli("tenants", "quota", "acme", "--json").document["quota"]["running"] == 3
    assert "2.5" in cli("tenants", "list").out
    assert cli("tenants", "quota", "default", "--queued", "7", "--json").document["quota"]["queued"] == 7
    assert "no tenant 'other'" in cli.fails(1, "tenants", "quota", "other", "--queued", "1")
    assert "there already" in cli.fails(1, "tenants", "create", "acme")


def test_erasing_asks_first(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("tenants", "create", "acme")
    cli("submit", "send", "--args", '{"to": "a"}', "--tenant", "acme")
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    stopped = cli("tenants", "erase", "acme")
    assert stopped.code == 2
    assert "Erase the tenant 'acme'" in stopped.err
    (tenant,) = cli("tenants", "list", "--json").document["tenants"]
    assert tenant["erased_at"] is None
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert cli("tenants", "erase", "acme").out == "acme is erased, with 1 job\n"
    assert "erased 20" in cli("tenants", "list").out


def test_erasing_without_being_asked(cli: Cli) -> None:
    cli("tenants", "create", "acme")
    assert cli("tenants", "erase", "acme", "--yes", "--json").document == {"name": "acme", "jobs": 0}
    assert "default tenant stays" in cli.fails(1, "tenants", "erase", "default", "--yes")
    assert "was erased" in cli.fails(1, "keys", "create", "ci", "--role", "viewer", "--tenant", "acme")


def test_the_audit_says_who_did_what(cli: Cli) -> None:
    key = cli("keys", "create", "ci", "--role", "viewer", "--json").document
    cli("keys", "revoke", key["id"])
    records = cli("audit", "list", "--json").document["records"]
    assert [record["action"] for record in records] == ["create_key", "revoke_key"]
    assert records[0]["after"]["name"] == "ci"
    assert "@" in records[0]["actor"] or records[0]["actor"] == "anybody"  # at a server without keys
    assert key["key"][-43:] not in json.dumps(records)
    assert "create_key" in cli("audit", "list", "--limit", "1").out
    assert "create_key" not in cli("audit", "list", "--after", "1").out
    assert cli("audit", "verify").out == "2 records of 'default': all of them fit\n"
    assert cli("audit", "list", "--tenant", "*").out == "no records\n"


def test_a_changed_record_is_found(cli: Cli) -> None:
    import sqlite3  # another library on the file, which nobody has open now

    cli("keys", "create", "ci", "--role", "viewer")
    cli("keys", "create", "cd", "--role", "viewer")
    with sqlite3.connect("mainspring.db") as file:
        file.execute("update audit set content = replace(content, '{', '') where number = 2")
    file.close()
    ran = cli("audit", "verify")
    assert (ran.code, ran.err) == (1, "")
    assert "number 2 does not" in ran.out
    assert "unreadable" in cli("audit", "list").out
    assert cli("audit", "verify", "--json").document == {"tenant": "default", "records": 1, "broken_at": 2}


def test_the_same_at_a_server_with_the_keys_own_tenant(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with served_apart(App("sqlite:///mainspring.db"), keys=True) as server:
        monkeypatch.setenv("MAINSPRING_SERVER", server.url)
        monkeypatch.setenv("MAINSPRING_KEY", str(server.key))
        assert cli("tenants", "create", "acme").out == "acme is made\n"
        key = cli("keys", "create", "boss", "--role", "admin", "--tenant", "acme").out.strip()
        assert {found["tenant"] for found in cli("keys", "list", "--tenant", "*", "--json").document["keys"]} == {
            "*",
            "acme",
        }
        monkeypatch.setenv("MAINSPRING_KEY", key)
        assert [found["name"] for found in cli("keys", "list", "--json").document["keys"]] == ["boss"]
        assert cli("templates", "put", "t", '{"kind": "send"}').out == "t: version 1 is current\n"
        assert cli("audit", "verify").out == "2 records of 'acme': all of them fit\n"
        assert "concerns all tenants" in cli.fails(1, "tenants", "list")
        assert "the key you use" in cli.fails(1, "keys", "revoke", key.split("_")[1])
        assert "another tenant" in cli.fails(1, "keys", "list", "--tenant", "default")

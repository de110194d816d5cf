"""What the owner of a worker lets jobs have."""

import re

import pytest

from mainspring.errors import InvalidError
from mainspring.execute.ceilings import bounded, ceilings, check_network, describe, may_use_network, problem
from mainspring.execute.sandbox.limits import Limits

MAX_LIMITS = "MAINSPRING_MAX_LIMITS"
NETWORK = "MAINSPRING_SCRIPT_NETWORK"


def test_without_a_ceiling_a_job_gets_what_it_asks_for() -> None:
    asked = Limits(memory_mb=100_000, cpu_s=1e6)
    assert bounded(asked) == asked
    assert "jobs choose their limits" in describe()


def test_more_than_the_ceiling_is_refused_with_both_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MAX_LIMITS, "memory_mb=2048, processes=256,cpu_s=3600,file_mb=10,disk_mb=20")
    given = Limits(memory_mb=2048, processes=256, cpu_s=3600, file_mb=10, disk_mb=20)
    assert bounded(given) == given
    for more in (
        Limits(memory_mb=2049),
        Limits(processes=257),
        Limits(cpu_s=3601),
        Limits(file_mb=11),
        Limits(disk_mb=21),
    ):
        with pytest.raises(InvalidError, match=r"limits.\w+: the job asks for \d+, and its worker allows \d+"):
            bounded(more)


def test_defaults_are_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MAX_LIMITS, "memory_mb=64,cpu_s=5.5")
    assert bounded(Limits(processes=3)) == Limits(memory_mb=64, cpu_s=5.5, processes=3)
    assert "at most cpu_s=5.5, memory_mb=64" in describe()


@pytest.mark.parametrize("said", ["memory=64", "memory_mb=lots", "memory_mb", "memory_mb=0", "64"])
def test_ceilings_that_cannot_be_read_are_named(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidError, match=f"{MAX_LIMITS}.*expected numbers such as memory_mb=2048"):
        ceilings({MAX_LIMITS: said})
    monkeypatch.setenv(MAX_LIMITS, said)
    assert MAX_LIMITS in (problem() or "")


def test_the_network_is_the_owners_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    check_network(False)
    with pytest.raises(InvalidError, match=re.escape(f"{NETWORK}=allow")):
        check_network(True)
    assert f"no network ({NETWORK}=never)" in describe()
    monkeypatch.setenv(NETWORK, "allow")
    check_network(True)
    assert "network for jobs that ask for it" in describe()
    with pytest.raises(InvalidError, match="'yes' is none of never, allow"):
        may_use_network({NETWORK: "yes"})

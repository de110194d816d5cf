"""Where jobs may be connected to."""

import pytest

from mainspring.errors import InvalidError
from mainspring.execute.addresses import Allowed, allowed

INSIDE = [
    "127.0.0.1",
    "127.255.0.3",
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:a9fe:a9fe",
    "64:ff9b::127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2001::1",
    "2001:db8::1",
    "100::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "/run/postgresql/.s.PGSQL.5432",
    "",
]
OUTSIDE = [
    "93.184.215.14",
    "1.1.1.1",
    "172.32.0.1",
    "2606:4700::1111",
    "::ffff:1.1.1.1",
    "64:ff9b::1.1.1.1",
    "2002:101:101::1",
]


@pytest.mark.parametrize("address", INSIDE)
def test_what_is_not_public_is_refused(address: str) -> None:
    assert not Allowed().permits("example.org", 443, address)


@pytest.mark.parametrize("address", OUTSIDE)
def test_what_is_public_is_not(address: str) -> None:
    assert Allowed().permits("example.org", 443, address)


def test_the_owner_of_a_worker_allows_hosts_ports_and_networks() -> None:
    given = allowed({"MAINSPRING_ALLOW_HOSTS": " Build.example, localhost:8080,[::1]:80 ,10.1.0.0/16,fd00::/8,"})

    assert given.permits("build.EXAMPLE", 99, "10.9.9.9")
    assert given.permits("localhost", 8080, "127.0.0.1")
    assert not given.permits("localhost", 8081, "127.0.0.1")
    assert given.permits("::1", 80, "::1")
    assert not given.permits("::1", 81, "::1")
    assert given.permits("any.example", 1, "10.1.2.3")
    assert given.permits("any.example", 1, "::ffff:10.1.2.3")
    assert not given.permits("any.example", 1, "10.2.2.3")
    assert given.permits("any.example", 1, "fd12::1")
    assert not allowed({}).hosts


@pytest.mark.parametrize("entry", ["10.1.2.3/16", "10.0.0.0/99", "a/b"])
def test_a_network_that_is_none_is_refused_with_the_variable_named(entry: str) -> None:
    with pytest.raises(InvalidError, match="MAINSPRING_ALLOW_HOSTS"):
        allowed({"MAINSPRING_ALLOW_HOSTS": entry})


@pytest.mark.parametrize("entry", ["::1", "[::1]", "[::1]:8080"])
def test_a_host_that_is_an_address_is_written_as_in_a_url(entry: str) -> None:
    assert allowed({"MAINSPRING_ALLOW_HOSTS": entry}).permits("::1", 8080, "::1")

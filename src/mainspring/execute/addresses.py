"""Which addresses the jobs of a worker may reach: public ones, and those that the worker's owner names.

Used by the job types that open connections for whoever submitted the job. Asked when a socket is about to be connected, with the
very address that it is connected to: however a host is spelt (`2130706433`, `0x7f.1`, `[::ffff:127.0.0.1]`), and whatever its name
resolves to a moment later, what counts is where the bytes would go. A job cannot widen this; MAINSPRING_ALLOW_HOSTS can: a list
of hosts (`build.example`), hosts with a port (`localhost:8080`) and networks (`10.1.0.0/16`).
"""

import os
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from msgspec import Struct

from mainspring.errors import InvalidError

VARIABLE = "MAINSPRING_ALLOW_HOSTS"

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_GLOBAL_IPV6 = ip_network("2000::/3")  # nothing else was ever given out
_NAT64 = ip_network("64:ff9b::/96")
# Not private by the rules, but what answers there is the cloud that the machine runs in.
_OF_CLOUDS = (ip_network("192.0.0.0/24"), ip_network("168.63.129.16/32"))


class Allowed(Struct, frozen=True):
    """What may be reached beside public addresses. `hosts`: as they are written in URLs, some with a port."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    def permits(self, host: str, port: int, address: str) -> bool:
        """May a job that asked for `host` and `port` be connected to `address`?"""
        written = (host.lower(), f"[{host.lower()}]")
        if self.hosts & {*written, *(f"{each}:{port}" for each in written)}:
            return True
        found = _parsed(address)
        return found is not None and (_is_public(found) or any(found in network for network in self.networks))


def allowed(environ: Mapping[str, str] = os.environ) -> Allowed:
    """What this worker's owner allows."""
    entries = [entry.strip().lower() for entry in environ.get(VARIABLE, "").split(",")]
    hosts, networks = set(), []
    for entry in filter(None, entries):
        if "/" in entry:
            networks.append(_network(entry))
        else:
            hosts.add(entry)
    return Allowed(frozenset(hosts), tuple(networks))


def _network(entry: str) -> Network:
    try:
        return ip_network(entry)
    except ValueError as error:
        hint = "expected hosts such as build.example or localhost:8080, and networks such as 10.1.0.0/16"
        raise InvalidError(VARIABLE, f"{error}; {hint}") from None


def _parsed(address: str) -> Address | None:
    """None: no address of a network, such as the path of a socket."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return _inner(found) if isinstance(found, IPv6Address) else found


def _inner(address: IPv6Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, if it does."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address):
        return address in _GLOBAL_IPV6 and address.is_global
    return address.is_global and not address.is_multicast and not any(address in network for network in _OF_CLOUDS)

"""What the owner of a worker lets jobs have, whatever they ask for: the most of each limit, and the network.

    MAINSPRING_MAX_LIMITS       such as "memory_mb=2048,processes=256,cpu_s=3600"; what is not named has no ceiling
    MAINSPRING_SCRIPT_NETWORK   never (the default) or allow: may programs use the network, if their job asks for it?

A job that asks for more fails at once and is told both numbers. A limit that is left at its default is lowered to the ceiling.
"""

import os
from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec import Struct, structs

from mainspring.errors import InvalidError
from mainspring.execute.sandbox.limits import Limits, Positive, Seconds

MAX_LIMITS = "MAINSPRING_MAX_LIMITS"
NETWORK = "MAINSPRING_SCRIPT_NETWORK"

N = TypeVar("N", int, float | None)

_DEFAULTS = Limits()
_CHOICES = ("never", "allow")


class Ceilings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The most of each limit; None: as much as the job says."""

    cpu_s: Seconds | None = None
    memory_mb: Positive | None = None
    processes: Positive | None = None
    file_mb: Positive | None = None
    disk_mb: Positive | None = None


def ceilings(environ: Mapping[str, str] = os.environ) -> Ceilings:
    parts = [part.partition("=") for part in environ.get(MAX_LIMITS, "").split(",") if part.strip()]
    given = {name.strip(): value.strip() for name, _, value in parts}
    try:
        return msgspec.convert(given, Ceilings, strict=False)
    except msgspec.ValidationError as error:
        names = ", ".join(Ceilings.__struct_fields__)
        raise InvalidError(MAX_LIMITS, f"{error}; expected numbers such as memory_mb=2048, of {names}") from None


def bounded(limits: Limits) -> Limits:
    """What a program of this worker gets; `InvalidError` if its job asks for more than there is."""
    most = structs.asdict(ceilings())
    given, usual = structs.asdict(limits), structs.asdict(_DEFAULTS)
    return Limits(**{name: lowered(f"limits.{name}", given[name], usual[name], most[name]) for name in given})


def lowered(field: str, given: N, usual: N, most: N | None) -> N:
    """One limit. `usual`: its default."""
    if most is None or (given is not None and given <= most):
        return given
    if given != usual:
        raise InvalidError(field, f"the job asks for {given:g}, and its worker allows {most:g} ({MAX_LIMITS})")
    return most


def may_use_network(environ: Mapping[str, str] = os.environ) -> bool:
    said = environ.get(NETWORK, _CHOICES[0])
    if said not in _CHOICES:
        raise InvalidError(NETWORK, f"{said!r} is none of {', '.join(_CHOICES)}")
    return said == "allow"


def check_network(wanted: bool) -> None:
    if wanted and not may_use_network():
        raise InvalidError("network", f"this worker gives no network to programs: its owner can, by {NETWORK}=allow")


def problem() -> str | None:
    """Why what the owner has said cannot be read."""
    try:
        ceilings(), may_use_network()
    except InvalidError as error:
        return str(error)
    return None


def describe() -> str:
    """For people."""
    network = "network for jobs that ask for it" if may_use_network() else f"no network ({NETWORK}=never)"
    most = [f"{name}={number:g}" for name, number in structs.asdict(ceilings()).items() if number is not None]
    return (
        f"{network}; {'at most ' + ', '.join(most) if most else f'jobs choose their limits ({MAX_LIMITS} is not set)'}"
    )

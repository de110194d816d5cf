"""How much one program may use: `Limits`, and the part of them that each process has for itself.

The kernel's own limits (`ulimit`) hold for each process alone. So memory and processes are counted by cgroups where those can be
written, and else by `watching`; what is here is the second line, or the only one.
"""

import math
from typing import Annotated

from msgspec import Meta, Struct

Positive = Annotated[int, Meta(ge=1, le=2**30)]
Seconds = Annotated[float, Meta(gt=0, le=10**9)]

OF_THE_REAPER = 2  # processes of a sandbox that are not the program's

_MB = 1024 * 1024
_UNITS = {"RLIMIT_FSIZE": 512, "RLIMIT_DATA": 1024}
_WORDS = {
    "RLIMIT_CORE": "ulimit -c {n}",
    "RLIMIT_FSIZE": "ulimit -f {n}",
    "RLIMIT_CPU": "ulimit -t {n}",
    "RLIMIT_DATA": "ulimit -d {n}",
    "RLIMIT_NPROC": "{{ ulimit -u {n} 2>/dev/null || ulimit -p {n}; }}",
}


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of all processes of a program together, but for `file_mb`: the largest file that one of them may write."""

    cpu_s: Seconds | None = None
    memory_mb: Positive = 512
    processes: Positive = 64
    file_mb: Positive = 1024
    disk_mb: Positive = 1024


def kernel_limits(limits: Limits, *, memory: bool, processes: bool) -> dict[str, int]:
    """By their names in the module `resource`. `memory`, `processes`: is there nothing else that limits them?"""
    made = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": limits.file_mb * _MB}
    if limits.cpu_s is not None:
        made["RLIMIT_CPU"] = math.ceil(limits.cpu_s) + 1  # later than whoever looks, who can say why
    if memory:
        made["RLIMIT_DATA"] = limits.memory_mb * _MB
    if processes:
        made["RLIMIT_NPROC"] = limits.processes + OF_THE_REAPER
    return made


def shell_words(made: dict[str, int]) -> str:
    """The same for /bin/sh, whichever that is: some say -u for processes, some -p."""
    return " && ".join(_WORDS[name].format(n=number // _UNITS.get(name, 1)) for name, number in made.items())

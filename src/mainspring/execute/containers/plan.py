"""What shall run: `Plan`, the same for every runtime."""

from pathlib import Path

from msgspec import Struct

from mainspring.execute.sandbox.limits import Limits

WORK = "/work"
PREFIX = "mainspring-"
OPEN_FILES = 1024
SHARES = 205  # of the processor, where 1024 is usual: the worker itself goes first


class Plan(Struct, frozen=True, kw_only=True):
    """`image` or `root`: what it runs in. `uid`: as whom; never root. `shown`: folders of the machine to be seen too, read-only,
    for trying a runtime out. `secrets`: variables too, that nothing may keep."""

    name: str
    image: str | None = None
    root: Path | None = None
    command: list[str]
    env: dict[str, str] = {}
    secrets: dict[str, str] = {}
    network: bool = False
    limits: Limits = Limits()
    uid: int
    shown: tuple[str, ...] = ()

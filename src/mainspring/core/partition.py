"""Job ids, slots and partitions.

A job id is a UUIDv7 of 16 bytes: 48 bits of milliseconds, the version, 12 bits of slot, the variant, 62 random bits. Every
call routes by id alone. A slot is a stable hash where jobs belong together (a key, a schedule), random otherwise; a partition
is the slot's top bits, so their number can change without changing an id.
"""

import hashlib
import re
import uuid
from collections.abc import Mapping

from mainspring.errors import InvalidError

SLOTS = 4096
MAX_RANDOM = 1 << 62

_PLAIN_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.ASCII).fullmatch
_VERSION = 7 << 76
_VARIANT = 2 << 62
_WRITTEN = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}").fullmatch


def make_id(unix_ms: int, slot: int, random62: int) -> bytes:
    """The id of a new job; `random62` is a random number below 2**62."""
    return (unix_ms << 80 | _VERSION | slot << 64 | _VARIANT | random62).to_bytes(16, "big")


def slot_of(job_id: bytes) -> int:
    return (job_id[6] & 0x0F) << 8 | job_id[7]


def partition_of(job_id: bytes, partitions: int) -> int:
    """`partitions` is a power of two up to `SLOTS`."""
    return slot_of(job_id) * partitions // SLOTS


def slot_for(*parts: str) -> int:
    """The slot shared by everything with the same parts: the first 12 bits of BLAKE2b over the parts, NUL-separated."""
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=2).digest()
    return int.from_bytes(digest, "big") >> 4


def format_id(job_id: bytes) -> str:
    """As `str(uuid.UUID(bytes=job_id))`, and four times as fast: whole batches are written so."""
    digits = job_id.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def parse_id(text: str) -> bytes:
    """The bytes of an id that a person or another program wrote."""
    if type(text) is str and _PLAIN_ID(text):
        return bytes.fromhex(text.replace("-", ""))
    try:
        value = uuid.UUID(text)
    except (ValueError, AttributeError, TypeError):
        raise InvalidError("id", f"{text!r} is not a job id: expected a UUID such as 0190-…") from None
    if value.version != 7:
        raise InvalidError("id", f"{text!r} is not a job id: expected a version 7 UUID")
    return value.bytes


def fair_share(
    owners: Mapping[int, bytes | None], nodes: Mapping[bytes, int], me: bytes
) -> tuple[list[int], list[int]]:
    """The partitions that node `me` should take and let go, so that every node ends up with a share by its capacity.

    Only free partitions are taken and only a surplus is let go, so a node that joins or leaves moves no more than its share.
    A node that is not among `nodes` (it drains) lets everything go.
    """
    share = shares(len(owners), nodes).get(me, 0)
    mine = sorted(number for number, owner in owners.items() if owner == me)
    free = sorted(number for number, owner in owners.items() if owner is None or owner not in nodes)
    return free[: max(0, share - len(mine))], mine[share:]


def shares(partitions: int, nodes: Mapping[bytes, int]) -> dict[bytes, int]:
    """How many partitions each node should have: by capacity, in whole numbers, as the largest remainders decide. Where there
    are enough for all, each node has one, so that none is without work of its own."""
    weights = {node: max(1, capacity) for node, capacity in nodes.items()}
    least = 1 if partitions >= len(nodes) else 0
    total, rest = sum(weights.values()), partitions - least * len(nodes)
    parts = {node: rest * weight // total for node, weight in weights.items()}
    by_remainder = sorted(weights, key=lambda node: (-(rest * weights[node] % total), node))
    for node in by_remainder[: rest - sum(parts.values())]:
        parts[node] += 1
    return {node: part + least for node, part in parts.items()}

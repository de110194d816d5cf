"""Lanes: ready jobs that are interchangeable for admission and matching.

Jobs of one lane have the same tenant, queue, kind, needs and limit key, so either all of them may start on a worker or none,
and the dispatcher looks at the head of a lane instead of at every job. The number is a stable 64-bit hash, the same on every
node and in every version.
"""

import hashlib
import math

from msgspec import Struct, json

from mainspring.core.job import Resources


class Lane(Struct, frozen=True):
    """What the jobs of a lane have in common."""

    tenant: str
    queue: str
    kind: str
    resources: Resources = Resources()
    labels: frozenset[str] = frozenset()
    limit_key: str | None = None

    def number(self) -> int:
        """Signed, because that is what stores have for 64 bits."""
        needs = self.resources
        parts = [
            self.tenant,
            self.queue,
            self.kind,
            needs.cpu,
            needs.memory_mb,
            needs.gpu,
            sorted(self.labels),
            self.limit_key,
        ]
        digest = hashlib.blake2b(json.encode(parts), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True)


def rounded(needs: Resources) -> Resources:
    """Needs as a class, so that few lanes come of many jobs: CPU up to the next quarter, memory up to the next of eight steps
    between two powers of two."""
    step = max(1, 1 << needs.memory_mb.bit_length() - 4) if needs.memory_mb >= 16 else 1
    memory_mb = -(-needs.memory_mb // step) * step
    return Resources(cpu=math.ceil(needs.cpu * 4) / 4, memory_mb=memory_mb, gpu=needs.gpu)

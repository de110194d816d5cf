"""From a method and an address to what serves them.

Addresses are compared as they were sent, segment by segment: an escaped `/` belongs to a name, and names are unescaped once, by
`Ask.path`. A segment that is spelled out wins over a name in its place; one slash too many at the end does no harm.
"""

from collections.abc import Sequence
from typing import Generic, TypeVar

from mainspring.errors import MainspringError, NotFoundError

T = TypeVar("T")


class MethodError(MainspringError):
    """The address is there, and takes other methods only."""

    def __init__(self, allow: Sequence[str]) -> None:
        super().__init__("this address does not take this method; see /v1/docs")
        self.allow = ", ".join(sorted(allow))


class Node(Generic[T]):
    """What may follow at one place of an address, and what is served where nothing does."""

    __slots__ = ("named", "spelled", "targets")

    def __init__(self) -> None:
        self.spelled: dict[str, Node[T]] = {}
        self.named: Node[T] | None = None
        self.targets: dict[str, tuple[T, tuple[str, ...]]] = {}  # by method, with the names of the segments

    def find(self, segments: list[str], at: int, values: list[str]) -> "Node[T] | None":
        """The node that serves these segments from `at` on; `values` are those in the places of names."""
        if at == len(segments):
            return self if self.targets else None
        child = self.spelled.get(segments[at])
        if child is not None and (found := child.find(segments, at + 1, values)) is not None:
            return found
        if self.named is None:
            return None
        values.append(segments[at])
        found = self.named.find(segments, at + 1, values)
        if found is None:
            values.pop()
        return found


class Routes(Generic[T]):
    """Addresses such as `/v1/jobs/{id}`, each with a target for some methods."""

    def __init__(self) -> None:
        self._root: Node[T] = Node()

    def add(self, method: str, address: str, target: T) -> None:
        node, names = self._root, []
        for segment in _segments(address):
            if segment.startswith("{"):
                names.append(segment[1:-1])
                node.named = node = node.named or Node()
            else:
                node = node.spelled.setdefault(segment, Node())
        if method in node.targets:
            raise LookupError(f"{method} {address} is served twice")
        node.targets[method] = target, tuple(names)

    def find(self, method: str, path: str) -> tuple[T, dict[str, str]]:
        """The target, and the segments that have names; `NotFoundError`, `MethodError`."""
        values: list[str] = []
        node = self._root.find(_segments(path), 0, values)
        if node is None:
            raise NotFoundError("there is nothing at this address; see /v1/docs")
        if method not in node.targets:
            raise MethodError(tuple(node.targets))
        target, names = node.targets[method]
        return target, dict(zip(names, values, strict=True))


def _segments(path: str) -> list[str]:
    return path.strip("/").split("/")

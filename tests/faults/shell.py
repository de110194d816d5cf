"""The commands of `child_shell`: to submit and to read, one by one, while the store is broken."""

from typing import Any

from faults.harness import Site, until


class Shell:
    """The commands of `child_shell`, and what was acknowledged."""

    def __init__(self, site: Site, **config: Any) -> None:
        self.child = site.start("child_shell", **config)
        self.child.hear("ready")
        self.accepted: list[str] = []

    def submit(self, what: int | str = 1) -> str | None:
        """So many jobs, or one with a key. None, or why it was refused."""
        word, _, rest = self._ask(f"submit {what}").partition(" ")
        if word == "refused":
            return rest
        self.accepted += rest.split()
        return None

    def state(self, id_: str) -> str:
        return self._ask(f"state {id_}").partition(" ")[2]

    def refusal(self) -> str:
        """Submit until it is refused: what is preallocated takes a little more."""
        return until(lambda: self.submit(50), "a submit is refused") or ""

    def recovered(self) -> None:
        until(lambda: self.submit() is None, "submits are accepted again")

    def _ask(self, command: str) -> str:
        self.child.tell(command)
        return self.child.hear("answer")

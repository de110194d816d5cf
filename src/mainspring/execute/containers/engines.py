"""podman and docker: the command lines.

What a job says never becomes an option: images have a form of their own (checked at submit and again at run), everything else
stands behind an option's name or after the image. Its environment goes through a file, because the engine's own program must not
see it (a DOCKER_HOST or an LD_PRELOAD there would be a way out) and neither must whoever lists processes.
"""

import os
from collections.abc import Iterator

from mainspring.errors import InvalidError
from mainspring.execute.containers.plan import OPEN_FILES, PREFIX, SHARES, WORK, Plan
from mainspring.execute.sandbox.folder import Folder
from mainspring.execute.sandbox.limits import kernel_limits

_ULIMITS = {
    "RLIMIT_CORE": "core",
    "RLIMIT_CPU": "cpu",
    "RLIMIT_FSIZE": "fsize",
    "RLIMIT_NOFILE": "nofile",
    "RLIMIT_NPROC": "nproc",
}
_MOST_PROCESSES = 1024


class Engine:
    """One of the two. `pull`: may it get images that are not here?"""

    limits_itself = True

    def __init__(self, name: str, program: str, *, pull: bool) -> None:
        self.name = name
        self.takes = frozenset({"image", "root"} if name == "podman" else {"image"})
        self._program = program
        self._rootless = name == "podman" and os.geteuid() != 0
        self._pull = pull

    def start(self, plan: Plan, folder: Folder) -> list[str]:
        """The command that runs it, in the foreground, and ends as it does."""
        file = folder.etc / "env"
        file.touch(mode=0o600)  # secrets of the job are in it
        file.write_bytes(b"".join(_lines(plan.env)))
        given = [self._program, "run", "--rm", "--name", plan.name, "--hostname", "job", "--env-file", str(file)]
        given += [
            "--read-only",
            "--volume",
            f"{folder.work}:{WORK}:Z",
            "--volume",
            f"{folder.tmp}:/tmp:Z",
            "--workdir",
            WORK,
        ]
        given += [word for shown in plan.shown for word in ("--volume", f"{shown}:{shown}:ro")]
        given += ["--user", f"{plan.uid}:{plan.uid}", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        given += [] if plan.network else ["--network", "none"]
        given += ["--userns", "keep-id"] if self._rootless else []  # else our user would be root in it
        given += ["--log-driver", "none", *self._limits(plan)]
        return [*given, *self._what(plan), *plan.command]

    def remove(self, name: str) -> list[str]:
        """The command that leaves nothing of it."""
        return [self._program, "rm", "--force", name]

    def names(self) -> list[str]:
        """The command that prints the names of all containers that workers have made here."""
        return [self._program, "ps", "--all", "--filter", f"name=^{PREFIX}", "--format", "{{.Names}}"]

    def version(self) -> list[str]:
        """The command that asks for the engine behind the program."""
        return [self._program, "version", "--format", "{{.Server.Version}}"]

    def _what(self, plan: Plan) -> list[str]:
        if plan.root is not None:
            return ["--rootfs", str(plan.root)]
        assert plan.image is not None
        return ["--pull", "missing" if self._pull else "never", plan.image]

    def _limits(self, plan: Plan) -> list[str]:
        memory = f"{plan.limits.memory_mb}m"
        given = ["--memory", memory, "--memory-swap", memory, "--pids-limit", str(plan.limits.processes)]
        given += ["--cpu-shares", str(SHARES)]
        # Podman would set some itself, higher than a machine may allow. Processes are counted by --pids-limit.
        limits = {"RLIMIT_NOFILE": OPEN_FILES, "RLIMIT_NPROC": _MOST_PROCESSES}
        limits |= kernel_limits(plan.limits, memory=False, processes=False)
        for name, limit in limits.items():
            given += ["--ulimit", f"{_ULIMITS[name]}={limit}:{limit}"]
        return given


def _lines(env: dict[str, str]) -> Iterator[bytes]:
    for name, value in env.items():
        if "\n" in value or "\r" in value:
            raise InvalidError(f"env.{name}", "has several lines, which podman and docker cannot take: use `files`")
        yield f"{name}={value}\n".encode()

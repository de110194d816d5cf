"""podman and docker: the command lines.

What a job says never becomes an option: images have a form of their own (checked at submit and again at run), everything else
stands behind an option's name or after the image. Its environment goes through a file, because the engine's own program must not
see it (a DOCKER_HOST or an LD_PRELOAD there would be a way out) and neither must whoever lists processes. Secrets become podman's
own (`keeping`): what podman is told otherwise it writes into a database.
"""

import os
from collections.abc import Iterator

from mainspring.errors import InvalidError
from mainspring.execute.containers.keeping import forgetting, keep, kept
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
_SHARED_MEMORY = "/dev/shm:rw,nosuid,nodev,noexec,size=64m,mode=1777"
# Else /run and /var/tmp, and what an image calls a volume, could be written to as well, and nobody would count it.
_READ_ONLY = ["--read-only-tmpfs=false", "--tmpfs", _SHARED_MEMORY, "--image-volume", "ignore"]


class Engine:
    """One of the two. `pull`: may it get images that are not here?"""

    limits_itself = True

    def __init__(self, name: str, program: str, *, pull: bool) -> None:
        self.name = name
        self.takes = frozenset({"image", "root"} if name == "podman" else {"image"})
        self.program = program
        self.pull = pull
        self.is_podman = name == "podman"
        self._rootless = self.is_podman and os.geteuid() != 0

    def start(self, plan: Plan, folder: Folder) -> list[str]:
        """The command that runs it, in the foreground, and ends as it does."""
        file = folder.etc / "env"
        file.touch(mode=0o600)  # for docker, secrets of the job are in it
        file.write_bytes(b"".join(_lines(plan.env if self.is_podman else plan.env | plan.secrets)))
        quietly = ["--log-level", "error"] if self.is_podman else []  # its warnings are no words of the program
        given = [self.program, *quietly, "run", "--rm", "--name", plan.name, "--hostname", "job"]
        given += ["--env-file", str(file)]
        given += [*keep(self.program, plan), *_READ_ONLY] if self.is_podman else []
        given += ["--read-only", "--volume", f"{folder.work}:{WORK}:Z", "--volume", f"{folder.tmp}:/tmp:Z"]
        given += [word for shown in plan.shown for word in ("--volume", f"{shown}:{shown}:ro")]
        given += ["--workdir", WORK, "--user", f"{plan.uid}:{plan.uid}", "--cap-drop", "ALL"]
        given += ["--security-opt", "no-new-privileges", "--stop-timeout", "0"]
        given += [] if plan.network else ["--network", "none"]
        given += ["--userns", "keep-id"] if self._rootless else []  # else our user would be root in it
        given += ["--log-driver", "none", *self._limits(plan)]
        return [*given, *self._what(plan), *plan.command]

    def remove(self, name: str) -> list[str]:
        """The command that leaves nothing of it; for podman, one that is gone already is no error."""
        return [self.program, "rm", "--force", "--volumes", *(["--ignore"] if self.is_podman else []), name]

    def forget(self, plan: Plan) -> list[str] | None:
        """The command that removes what the engine keeps of the plan's secrets; None where it keeps nothing."""
        names = kept(plan) if self.is_podman else {}
        return forgetting(self.program, list(names)) if names else None

    def names(self) -> list[str]:
        """The command that prints the names of all containers that workers have made here."""
        return [self.program, "ps", "--all", "--filter", f"name=^{PREFIX}", "--format", "{{.Names}}"]

    def has(self, image: str) -> list[str]:
        """The command that succeeds if the image is here."""
        return [self.program, "image", "inspect", "--format", "{{.Id}}", image]

    def version(self) -> list[str]:
        """The command that asks for the engine behind the program."""
        return [self.program, "version", "--format", "{{.Server.Version}}"]

    def _what(self, plan: Plan) -> list[str]:
        if plan.root is not None:
            return ["--rootfs", str(plan.root)]
        assert plan.image is not None
        return ["--pull", "missing" if self.pull else "never", plan.image]

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

"""Process groups that never outlive the bench."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_ROOT = Path(__file__).resolve().parents[2]
_PR_SET_PDEATHSIG = 1
_GONE_WITHIN_S = 1.0
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_guard: subprocess.Popen[str] | None = None


def module_argv(module: str, *arguments: str) -> list[str]:
    """The command that runs a module with the interpreter of the bench."""
    return [sys.executable, "-m", module, *arguments]


def child_env(extra: Mapping[str, str]) -> dict[str, str]:
    """The bench's environment with `extra`, and with the `bench` package importable from any folder."""
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **extra}


def _die_with_parent() -> None:
    """In the child: ask the kernel for SIGKILL when the parent dies. Covers the moment before the guard is told."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _tell_guard(verb: str, group: int) -> None:
    """Put a process group on the guard's list or take it off; starts the guard at the first call."""
    global _guard
    if _guard is None:
        _guard = subprocess.Popen(
            module_argv("bench.peers.guard"),
            stdin=subprocess.PIPE,
            text=True,
            env=child_env({}),
            start_new_session=True,
        )
    if _guard.stdin is not None:
        _guard.stdin.write(f"{verb} {group}\n")
        _guard.stdin.flush()


class Group:
    """One command in a session of its own, with all the processes that it forks."""

    def __init__(
        self, argv: Sequence[str], *, cwd: Path, log: Path, env: Mapping[str, str] | None = None, pipes: bool = False
    ) -> None:
        """Start the command. Its output goes to the end of `log`; with `pipes`, stdin and stdout are ours."""
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=child_env(env or {}),
                stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
                stdout=subprocess.PIPE if pipes else output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        self._group = self._process.pid
        _tell_guard("add", self._group)

    @property
    def pid(self) -> int:
        """The first process of the group."""
        return self._group

    @property
    def alive(self) -> bool:
        """Whether the first process of the group still runs."""
        return self._process.poll() is None

    @property
    def pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        """The command's stdin and stdout, if it was started with pipes."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("started without pipes")
        return self._process.stdin, self._process.stdout

    def send_kill(self) -> None:
        """SIGKILL every process of the group, without waiting."""
        self._signal_group(signal.SIGKILL)

    def kill(self) -> None:
        """SIGKILL every process of the group at once, and wait until they are gone."""
        self.send_kill()
        self._process.wait()
        deadline = time.monotonic() + _GONE_WITHIN_S
        while self._signal_group(0) and time.monotonic() < deadline:
            time.sleep(0.01)
        self._close_pipes()
        _tell_guard("drop", self._group)

    def stop(self, grace_s: float = 10.0, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask the first process to end, and kill what is left of the group after `grace_s`."""
        if self.alive:
            self._process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        self.kill()

    def _signal_group(self, number: int) -> bool:
        try:
            os.killpg(self._group, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _close_pipes(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def kill_all(groups: Sequence[Group]) -> None:
    """SIGKILL several groups at once, and wait until all are gone."""
    for group in groups:
        group.send_kill()
    for group in groups:
        group.kill()


def tail(log: Path, lines: int = 8) -> str:
    """The last lines of a log file, or nothing if there is none."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])

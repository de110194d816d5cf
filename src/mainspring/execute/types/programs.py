"""What types that run programs share: checks of arguments, files in, the program's end as the job's, its words as a result."""

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Protocol

from mainspring.errors import InvalidError
from mainspring.execute.context import Context
from mainspring.execute.masking import Mask, mask_for
from mainspring.execute.sandbox.folder import Folder, checked_name
from mainspring.execute.sandbox.run import Ended, Write
from mainspring.execute.types import KilledError, ProgramError
from mainspring.execute.types.files import CHECKPOINT, keep_checkpoint, store_outputs

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXPECTED = "expected letters, digits and _, and not MAINSPRING_ at the beginning"
_SHOWN = 1500  # bytes of standard error in a failure


class Program(Protocol):
    """One that has been started."""

    folder: Folder

    async def finish(self, write: Write, mask: Mask) -> Ended: ...


def given_files(ctx: Context, files: Mapping[str, str]) -> dict[str, bytes]:
    """What a program finds in its working folder: what the job says, and the checkpoint of an earlier attempt."""
    given = {name: text.encode() for name, text in files.items()}
    return given if ctx._services.resume is None else given | {CHECKPOINT: ctx._services.resume}


async def follow(ctx: Context, program: Program, outputs: list[str]) -> Ended:
    """Until it has ended; raises unless that was well. What it writes is the job's log, what it leaves its outputs."""
    async with keep_checkpoint(ctx, program.folder):
        ended = await program.finish(ctx._services.write, mask_for(ctx._services.secrets))
    judge(ended)
    await store_outputs(ctx, program.folder, outputs)
    return ended


def judge(ended: Ended) -> None:
    said = _last_lines(ended.stderr)
    if ended.killed is not None:
        raise KilledError(f"killed: {ended.killed}{said}")
    if ended.exit_code != 0:
        raise ProgramError(f"exit code {ended.exit_code}{said}")


def last_output(ended: Ended) -> str:
    return ended.stdout.decode(errors="replace")


def check_program(
    command: list[str], env: Mapping[str, str] | None, files: Iterable[str] | None, outputs: Iterable[str] | None
) -> None:
    for word in command:
        _refuse_nul("arguments.command", word)
    for name, value in (env or {}).items():
        if not _VARIABLE.fullmatch(name) or name.startswith("MAINSPRING_"):
            raise InvalidError("arguments.env", f"{name!r} is no name for a variable of a job: {_EXPECTED}")
        _refuse_nul(f"arguments.env.{name}", value)
    _check_files({checked_name("arguments.files", name) for name in files or ()})
    for pattern in outputs or ():
        checked_name("arguments.outputs", pattern)


def _check_files(names: set[str]) -> None:
    folders = {str(folder) for name in names for folder in PurePosixPath(name).parents}
    if both := folders & {*names, CHECKPOINT}:
        raise InvalidError("arguments.files", f"{min(both)!r} cannot be a file and a folder")


def _last_lines(stderr: bytes) -> str:
    text = stderr.decode(errors="replace").strip()
    if len(text) > _SHOWN:
        end = text[-_SHOWN:]
        text = "… " + (end.partition("\n")[2] or end)  # whole lines, if there are any
    return f"; at the end it said:\n{text}" if text else ""


def _refuse_nul(field: str, text: str) -> None:
    if "\0" in text:
        raise InvalidError(field, "holds a NUL character, which no program can be given")

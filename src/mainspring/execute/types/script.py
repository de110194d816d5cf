"""The type `script`: a program of the machine, with files in and out, in a sandbox wherever there is one.

How it is kept apart is the matter of `execute.sandbox`; here is what a job adds: its arguments, secrets as environment, what it
writes as the job's log, outputs, a checkpoint, the verdict. Exit code 0 completes the job, anything else fails it.
"""

from functools import cache

from msgspec import Struct

from mainspring.errors import InvalidError
from mainspring.execute.context import Context
from mainspring.execute.masking import mask_for
from mainspring.execute.sandbox.ability import Isolation, ability, choose, missing, policy
from mainspring.execute.sandbox.folder import checked_name
from mainspring.execute.sandbox.launch import LaunchError, Order
from mainspring.execute.sandbox.limits import Limits
from mainspring.execute.sandbox.run import Ended, Running, started
from mainspring.execute.types import JobType, KilledError, ProgramError
from mainspring.execute.types.files import CHECKPOINT, VARIABLE, keep_checkpoint, store_outputs
from mainspring.runtime.log import get_logger

_log = get_logger("mainspring.worker")

DEFAULT_LIMITS = Limits()

_SHOWN = 1500  # bytes of standard error in a failure


class ScriptResult(Struct, frozen=True):
    """`stdout`: the last 16 KiB of it; the job's log has everything. `isolation`: sandbox or bare."""

    exit_code: int
    stdout: str
    isolation: str


async def script(
    ctx: Context,
    command: list[str],
    *,
    env: dict[str, str] = {},  # noqa: B006  (nobody changes it)
    stdin: str = "",
    files: dict[str, str] = {},  # noqa: B006
    outputs: list[str] = [],  # noqa: B006
    network: bool = False,
    isolation: Isolation = "auto",
    limits: Limits = DEFAULT_LIMITS,
) -> ScriptResult:
    """Run a program; its exit code decides.

    command: the program and its arguments; no shell looks at them. files: texts that it finds in its working folder, by name.
    outputs: files that it leaves there and that are kept, by names or patterns such as `*.csv` and `**/*.png`. network: may it
    reach the machine's network? isolation: `required` fails the job where there is no sandbox. `$MAINSPRING_CHECKPOINT` names a
    file: what it holds at the end of an attempt is there again in the next.
    """
    order = _order(ctx, command, env, stdin, network, isolation, limits)
    given = {name: text.encode() for name, text in files.items()}
    if ctx._services.resume is not None:
        given[CHECKPOINT] = ctx._services.resume
    running: Running | None = None
    try:
        async with started(order, given) as running:
            async with keep_checkpoint(ctx, running.folder):
                ended = await running.finish(ctx._services.write)
            _judge(ended)
            await store_outputs(ctx, running.folder, outputs)
    except LaunchError as error:
        raise ProgramError(f"the sandbox could not be made: {error}") from None
    finally:
        if running is not None:
            ctx._services.use(running.process.usage)
    shown = mask_for(ctx._services.secrets).text(ended.stdout.decode(errors="replace"))
    return ScriptResult(ended.exit_code, shown, "bare" if order.binary is None else "sandbox")


def _order(
    ctx: Context,
    command: list[str],
    env: dict[str, str],
    stdin: str,
    network: bool,
    isolation: Isolation,
    limits: Limits,
) -> Order:
    allowed = policy()
    binary = choose(isolation, allowed)
    if binary is None and allowed == "auto":
        _say_bare()
    return Order(
        command=command,
        env={**env, **ctx._services.secrets},
        places={VARIABLE: CHECKPOINT},
        stdin=stdin.encode(),
        network=network,
        limits=limits,
        binary=binary,
        uid=ability().users.take(),
        tree=ability().tree,
    )


@cache
def _say_bare() -> None:
    """Once."""
    _log.warning("scripts run without a sandbox", because=ability().why_not)


def _judge(ended: Ended) -> None:
    said = _last_lines(ended.stderr)
    if ended.killed is not None:
        raise KilledError(f"killed: {ended.killed}{said}")
    if ended.exit_code != 0:
        raise ProgramError(f"exit code {ended.exit_code}{said}")


def _last_lines(stderr: bytes) -> str:
    text = stderr.decode(errors="replace").strip()
    if len(text) > _SHOWN:
        text = "… " + text[-_SHOWN:].partition("\n")[2]
    return f"; at the end it said:\n{text}" if text else ""


def _check(
    command: list[str],
    env: dict[str, str] | None = None,
    files: dict[str, str] | None = None,
    outputs: list[str] | None = None,
    **_: object,
) -> None:
    if not command or not command[0]:
        raise InvalidError("arguments.command", "names no program: give a list such as ['bash', '-c', 'echo hello']")
    for word in command:
        _refuse_nul("arguments.command", word)
    for name, value in (env or {}).items():
        _refuse_nul(f"arguments.env.{name}", name + value)
        if not name or "=" in name or name.startswith("MAINSPRING_"):
            raise InvalidError("arguments.env", f"{name!r} is no name for a variable of a job")
    for name in files or {}:
        checked_name("arguments.files", name)
    for pattern in outputs or []:
        checked_name("arguments.outputs", pattern)


def _refuse_nul(field: str, text: str) -> None:
    if "\0" in text:
        raise InvalidError(field, "holds a NUL character, which no program can be given")


TYPE = JobType("script", script, missing, check=_check, give_up_on=(InvalidError,))

"""The type `script`: a program of the machine, with files in and out, in a sandbox wherever there is one.

How it is kept apart is the matter of `execute.sandbox`; here is what a job adds: its arguments, secrets as environment, what it
writes as the job's log, outputs, a checkpoint, the verdict. Exit code 0 completes the job, anything else fails it.
"""

from functools import cache

from msgspec import Struct

from mainspring.errors import InvalidError
from mainspring.execute.ceilings import bounded, check_network, problem
from mainspring.execute.ceilings import describe as describe_ceilings
from mainspring.execute.context import Context
from mainspring.execute.sandbox.ability import Isolation, ability, choose, describe, missing, policy
from mainspring.execute.sandbox.launch import LaunchError, Order
from mainspring.execute.sandbox.limits import Limits
from mainspring.execute.sandbox.run import Running, started
from mainspring.execute.types import JobType, ProgramError
from mainspring.execute.types.files import CHECKPOINT, VARIABLE
from mainspring.execute.types.programs import check_program, follow, given_files, last_output
from mainspring.runtime.log import get_logger

_log = get_logger("mainspring.worker")

DEFAULT_LIMITS = Limits()


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
    reach the machine's network, if the worker's owner allows that? isolation: `required` fails the job where there is no
    sandbox. `$MAINSPRING_CHECKPOINT` names a file: what it holds at the end of an attempt is there again in the next.
    """
    _check(command, env, files, outputs)
    check_network(network)
    order = _order(ctx, command, env, stdin, network, isolation, bounded(limits))
    running: Running | None = None
    try:
        async with started(order, given_files(ctx, files)) as running:
            ended = await follow(ctx, running, outputs)
    except LaunchError as error:
        raise ProgramError(f"the program could not be started: {error}") from None
    finally:
        if running is not None:
            ctx._services.use(running.usage)
    return ScriptResult(ended.exit_code, last_output(ended), "bare" if order.binary is None else "sandbox")


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


def _check(
    command: list[str],
    env: dict[str, str] | None = None,
    files: dict[str, str] | None = None,
    outputs: list[str] | None = None,
    **_: object,
) -> None:
    if not command or not command[0]:
        raise InvalidError("arguments.command", "names no program: give a list such as ['bash', '-c', 'echo hello']")
    check_program(command, env, files, outputs)


def _missing() -> str | None:
    return missing() or problem()


def _about() -> str:
    return f"{describe()}; {describe_ceilings()}"


TYPE = JobType("script", script, _missing, check=_check, give_up_on=(InvalidError,), about=_about)

"""Secrets of a job as podman's own secrets, from just before its container until it is gone.

podman writes what it is told about a container, with all variables, into its database, and what is deleted there can still be read
from the file. Its secrets are in a file of their own, for its user only, which is written anew when one is removed. Their names say
whose they are, so that the next worker can tell what one that was killed has left.
"""

import subprocess

from mainspring.execute.containers.clients import environment
from mainspring.execute.containers.leftovers import shortened
from mainspring.execute.containers.plan import PREFIX, Plan
from mainspring.execute.sandbox.launch import LaunchError

_KEEP_S = 30.0


def keep(program: str, plan: Plan) -> list[str]:
    """Give them to podman; the options by which its container has them as variables."""
    options = []
    for name, variable in kept(plan).items():
        _create(program, name, plan.secrets[variable])
        options += ["--secret", f"{name},type=env,target={variable}"]
    return options


def kept(plan: Plan) -> dict[str, str]:
    """The name of each there, and its variable."""
    name = shortened(plan.name)  # podman allows 64 characters
    return {f"{name}-{number}": variable for number, variable in enumerate(plan.secrets)}


def forgetting(program: str, names: list[str]) -> list[str]:
    """The command that removes them."""
    return [program, "secret", "rm", *names]


def listing(program: str) -> list[str]:
    """The command that prints the names of all that workers have made here."""
    return [program, "secret", "ls", "--filter", f"name=^{PREFIX}", "--format", "{{.Name}}"]


def _create(program: str, name: str, value: str) -> None:
    command = [program, "secret", "create", name, "-"]
    try:
        done = subprocess.run(
            command, input=value.encode(), env=environment(), capture_output=True, timeout=_KEEP_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchError(f"it takes no secret: {error}") from None
    if done.returncode != 0:
        raise LaunchError(f"it takes no secret: {done.stderr.decode(errors='replace').strip()[-300:]}")

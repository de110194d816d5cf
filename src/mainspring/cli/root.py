"""The tree of commands, and the one place where a command ends.

Called by `main` and by tests. `run` answers an exit code and never lets a user's mistake become a traceback. Only the module of the
command that was asked for is imported; help and the documentation's test ask for all of them.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

import typer

from mainspring.cli.failures import FAILURE, INTERRUPTED, UsageError, report, report_usage

# Command or group -> where it lives. The order is the order of the help.
COMMANDS = {
    "dev": "mainspring.cli.dev:dev",
    "worker": "mainspring.cli.worker:worker",
    "server": "mainspring.cli.server:server",
    "submit": "mainspring.cli.submit:submit",
    "jobs": "mainspring.cli.jobs:jobs_app",
    "schedules": "mainspring.cli.schedules:schedules_app",
    "queues": "mainspring.cli.queues:queues_app",
    "workers": "mainspring.cli.workers:workers_app",
    "nodes": "mainspring.cli.nodes:nodes_app",
    "templates": "mainspring.cli.templates:templates_app",
    "keys": "mainspring.cli.keys:keys_app",
    "secrets": "mainspring.cli.secrets:secrets_app",
    "tenants": "mainspring.cli.tenants:tenants_app",
    "audit": "mainspring.cli.audit:audit_app",
    "migrate": "mainspring.cli.migrate:migrate",
    "usage": "mainspring.cli.usage:usage",
    "doctor": "mainspring.cli.doctor:doctor",
    "bench": "mainspring.cli.bench:bench_app",
}


def build(word: str | None = None) -> typer.Typer:
    """The command line, with the one command that `word` names, or with all of them."""
    app = typer.Typer(
        name="mainspring",
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help: it reads the same in a pipe, and Rich is not needed for it
        help=_HELP,
    )
    app.callback()(_root)
    for name, place in COMMANDS.items():
        if word in COMMANDS and word != name:
            continue
        module, attribute = place.split(":")
        if find_spec(module) is None:
            continue
        found = getattr(import_module(module), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def run(arguments: Sequence[str]) -> int:
    """Run one command; answers the exit code."""
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has gone: `mainspring jobs list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    return code


def _run(arguments: Sequence[str]) -> int:
    try:
        _refuse_bad_text(arguments)
        words = [argument for argument in arguments if not argument.startswith("-")]
        command = typer.main.get_command(build(words[0] if words else None))
        answer = command.main(list(arguments), prog_name="mainspring", standalone_mode=False)
    except (UsageError, typer.Abort) as error:
        return report_usage(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        return report(error)
    return answer if isinstance(answer, int) else 0


def _refuse_bad_text(arguments: Sequence[str]) -> None:
    for argument in arguments:
        if any("\ud800" <= character <= "\udfff" for character in argument):
            raise UsageError(f"{argument!a} is not valid UTF-8")


def _root(version: bool = typer.Option(False, "--version", help="Print the version and end.")) -> None:
    if version:
        from mainspring import __version__

        print(f"mainspring {__version__}")
        raise typer.Exit


_HELP = """Durable jobs, timers and schedules.

Start with `mainspring dev MODULE:APP`: it runs your application's jobs here and shows what happens. All other commands work
beside it, from any terminal, on the same store.
"""

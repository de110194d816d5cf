"""How a command fails: one line on stderr that says what to do, and an exit code that scripts can tell apart.

Called by `root.run` for whatever a command raised. Guarantees: every error that Mainspring raises on purpose, and every error of
the user's own module, ends as a line; only a bug of ours shows a traceback.
"""

import sys
import traceback

import typer

from mainspring.core.words import clean
from mainspring.errors import InvalidError, MainspringError, ServerError, StoreError

FAILURE = 1  # not found, a conflict, a job that failed
USAGE = 2  # the command or a value is wrong; nothing was done
STORE = 3  # the store or the server cannot be used
TIMEOUT = 4  # waited in vain
INTERRUPTED = 130  # Ctrl-C

# Click's; which Click it is depends on Typer's version.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class AppError(MainspringError):
    """The application named on the command line cannot be loaded: there is no such thing."""


class UserCodeError(MainspringError):
    """The application's own module raised while it was imported."""


class WaitedError(MainspringError):
    """A wait ended before what it waited for."""


class SilentError(MainspringError):
    """Everything has been said; only the exit code is left."""


def report(error: Exception) -> int:
    """Say what went wrong; answers the exit code."""
    code = exit_code(error)
    if code is None:
        traceback.print_exception(error)
        print("error: this is a bug in Mainspring; please report it with the lines above", file=sys.stderr)
        return FAILURE
    if not isinstance(error, SilentError):
        complain(str(error) or type(error).__name__)
    return code


def complain(problem: str) -> None:
    """One line on stderr."""
    print(f"error: {clean(problem, one_line=True)}", file=sys.stderr)


def exit_code(error: Exception) -> int | None:
    """None for what nobody expected."""
    match error:
        case InvalidError() | AppError():
            return USAGE
        case StoreError() | ServerError() | OSError():
            return STORE
        case WaitedError():
            return TIMEOUT
        case MainspringError():
            return FAILURE
    return None


def report_usage(error: Exception) -> int:
    """Click's complaint as one line in our form, with the way to the help; answers the exit code."""
    told = clean(str(getattr(error, "format_message", lambda: "stopped")()))
    if type(error).__name__ == "NoArgsIsHelpError":  # nothing was asked for: the help is the answer
        print(told)
        return 0
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "mainspring"
    text = clean(told, one_line=True).rstrip(".")
    print(f"error: {text[:1].lower()}{text[1:]} (see `{path} --help`)", file=sys.stderr)
    return USAGE

"""From `module:app` to the application.

Called by every command that needs the user's code. Guarantees: what is wrong with the name is an `AppError`; what the user's own
module raises is a `UserCodeError` that names the file and the line in his code, not in ours.
"""

import importlib
import sys
import sysconfig
import traceback
from importlib.util import find_spec
from pathlib import Path

from mainspring.app import App
from mainspring.cli.failures import AppError, UserCodeError
from mainspring.core.words import listed

_EXAMPLE = "for example `tasks:app` for `app = App()` in tasks.py"


def load_app(target: str) -> App:
    """The application; the current folder is importable, as for `python -m`."""
    name, _, attribute = target.partition(":")
    if name.endswith(".py") or "/" in name:
        raise AppError(f"{target!r} is a file; name it as a module, {_EXAMPLE}")
    if not name or not all(part.isidentifier() for part in name.split(".")):
        raise AppError(f"{target!r} is not MODULE:APP, {_EXAMPLE}")
    if sys.path[:1] != [folder := str(Path.cwd())]:
        sys.path.insert(0, folder)
    found = _imported(name)
    for part in (attribute or "app").split("."):
        if not hasattr(found, part):
            raise AppError(f"{name} has no {attribute or 'app'!r}{_others(name)}")
        found = getattr(found, part)
    if not isinstance(found, App):
        raise AppError(f"{target} is a {type(found).__name__}, not a mainspring.App{_others(name)}")
    return found


def _imported(name: str) -> object:
    try:
        if find_spec(name) is None:
            raise AppError(f"there is no module {name!r} here ({Path.cwd()}) nor among the installed ones")
        return importlib.import_module(name)
    except AppError:
        raise
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise AppError(f"there is no module {error.name!r} here ({Path.cwd()})") from None
        raise UserCodeError(_told(name, error)) from None
    except BaseException as error:  # the module is the user's: it may raise anything, also SystemExit
        raise UserCodeError(_told(name, error)) from None


def _others(name: str) -> str:
    """Apps that the module does hold."""
    held = [key for key, value in vars(sys.modules[name]).items() if isinstance(value, App)]
    return f"; it has {listed(f'{name}:{key}' for key in held)}" if held else ""


def _told(name: str, error: BaseException) -> str:
    problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError):
        problem = f"{type(error).__name__}: {error.msg}"
        return f"cannot import {name}: {_shown(error.filename or '?')}, line {error.lineno}: {problem}"
    frame = _users_frame(error)
    where = f"{_shown(frame.filename)}, line {frame.lineno}: " if frame else ""
    code = f" (in `{frame.line}`)" if frame and frame.line else ""
    return f"cannot import {name}: {where}{problem}{code}"


def _users_frame(error: BaseException) -> traceback.FrameSummary | None:
    """The last line of the user's own code on the way to the error."""
    library = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), str(Path(__file__).parents[1]))
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith((*library, "<"))]
    return own[-1] if own else None


def _shown(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename

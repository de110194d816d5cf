"""An exception as text that can be stored: type, message, traceback.

Called wherever an attempt's exception ends its way. Guarantees: never raises, whatever the exception does when it is
looked at; the texts are bounded and valid Unicode; the traceback starts at the user's function, not in Mainspring; what the
attempt's mask hides is in none of them.
"""

import traceback
from types import TracebackType
from typing import Final

from mainspring.execute.masking import NO_MASK, Mask
from mainspring.wire import Failure

MAX_MESSAGE_BYTES: Final = 2_048
MAX_TRACEBACK_BYTES: Final = 16_384

_OURS = "mainspring.execute."
_CUT = "[… cut …]"


def failure(reason: str, error: BaseException, mask: Mask = NO_MASK) -> Failure:
    """Why an attempt failed, from the exception that left its function."""
    return Failure(reason, _type_name(error), _message(error, mask), traceback_text(error, mask))


def traceback_text(error: BaseException, mask: Mask = NO_MASK) -> str:
    """The traceback with its causes, without our own frames at the top; the end is kept, where the error is."""
    try:
        trimmed = traceback.TracebackException(type(error), error, _users_part(error.__traceback__), compact=True)
        text = "".join(trimmed.format())
    except Exception:  # an exception whose attributes or chain cannot be read
        text = "the traceback of this exception could not be written\n"
    return _bounded_end(mask.text(text), MAX_TRACEBACK_BYTES)  # first masked: a value that is cut is not found


def _users_part(frames: TracebackType | None) -> TracebackType | None:
    while frames is not None and str(frames.tb_frame.f_globals.get("__name__", "")).startswith(_OURS):
        frames = frames.tb_next
    return frames


def _type_name(error: BaseException) -> str:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return _bounded_start(name, MAX_MESSAGE_BYTES)


def _message(error: BaseException, mask: Mask) -> str:
    try:
        text = str(error)
    except BaseException:  # __str__ is the user's code: it may raise anything, and must not matter
        text = "the message of this exception could not be read"
    return _bounded_start(mask.text(text), MAX_MESSAGE_BYTES)


def _bounded_start(text: str, limit: int) -> str:
    data = text[:limit].encode(errors="backslashreplace")
    if len(data) <= limit and len(text) <= limit:
        return data.decode()
    return data[: limit - len(_CUT.encode())].decode(errors="ignore") + _CUT


def _bounded_end(text: str, limit: int) -> str:
    data = text[-limit:].encode(errors="backslashreplace")
    if len(data) <= limit and len(text) <= limit:
        return data.decode()
    return _CUT + data[len(_CUT.encode()) - limit :].decode(errors="ignore")

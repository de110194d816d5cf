"""Functions for the process pool. They tell where they are through a named pipe, so that no test has to guess."""

import asyncio
import ctypes
import os
import subprocess
import sys
import threading
from typing import Any

from mainspring.execute.context import Context
from mainspring.execute.signals import Cancel, Retry, Snooze


class KeepTryingError(Exception):
    pass


class HopelessError(KeepTryingError):
    pass


class Decorated:
    """What a decorator of an app may leave behind under a function's name."""

    def __init__(self, function: Any) -> None:
        self.__wrapped__ = function


def tell(pipe: str, text: str) -> None:
    with open(pipe, "w") as file:
        file.write(text)


def pid() -> int:
    return os.getpid()


def double(number: int) -> int:
    return 2 * number


async def double_async(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


def fail(hopeless: bool) -> None:
    raise HopelessError("no way") if hopeless else KeepTryingError("not yet")


def signal(name: str) -> None:
    raise {"retry": Retry(after="10m"), "snooze": Snooze("1h"), "cancel": Cancel("enough")}[name]


def count_to(context: Context, pipe: str) -> None:
    context.progress(10, "begun")
    thread = threading.Thread(target=context.progress, args=(60.5,))
    thread.start()
    thread.join()
    with open(pipe) as file:
        file.read()
    context.progress(100)


async def count_to_async(context: Context, pipe: str) -> None:
    await asyncio.to_thread(count_to, context, pipe)


def bad_result() -> object:
    return object()


def hang(pipe: str) -> None:
    tell(pipe, str(os.getpid()))
    threading.Event().wait()


def hang_then_clean_up(begun: str, cleaned: str) -> None:
    try:
        tell(begun, "begun")  # inside: whoever hears it may stop the job before the next line
        threading.Event().wait()
    finally:
        tell(cleaned, "cleaned")


def hang_hard(pipe: str) -> None:
    told = False
    while True:
        try:
            if not told:
                told = True
                tell(pipe, str(os.getpid()))
            threading.Event().wait()
        except BaseException:
            continue


async def hang_async(pipe: str) -> None:
    tell(pipe, str(os.getpid()))
    await asyncio.Event().wait()


def watch_context(pipe: str, ctx: Context) -> None:
    tell(pipe, "begun")
    while True:
        ctx.check_cancelled()
        os.sched_yield()


def exit_now() -> None:
    os._exit(3)


def exit_politely() -> None:
    sys.exit(4)


def segfault() -> None:
    ctypes.string_at(0)


def close_everything() -> None:
    os.closerange(3, 1000)


def start_another(pipe: str) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import threading; threading.Event().wait()"])
    tell(pipe, str(other.pid))
    threading.Event().wait()


def in_disguise(number: int) -> int:
    return 3 * number


plain_in_disguise = in_disguise
in_disguise = Decorated(in_disguise)  # type: ignore[assignment]


def betray(context: Context) -> None:
    """Says a secret in every way that others could read."""
    token = context.secret("TOKEN")
    context.progress(50, f"logging in with {token}")
    raise KeepTryingError(f"refused {token!r}")


def use_secret(context: Context) -> int:
    return len(context.secret("TOKEN"))

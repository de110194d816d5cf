"""Functions for the process pool. They tell where they are through a named pipe, so that no test has to guess."""

import asyncio
import ctypes
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from mainspring.errors import SessionEndedError
from mainspring.execute.context import Context
from mainspring.execute.records import JobLogHandler
from mainspring.execute.services import Services
from mainspring.execute.signals import Cancel, Retry, Snooze
from mainspring.wire import Stored, Usage


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


BURN_S = 0.03


def burn(cpu_s: float) -> None:
    """Use so much of a processor."""
    end = time.thread_time() + cpu_s
    while time.thread_time() < end:
        pass


def burn_a_while() -> None:
    burn(BURN_S)


def burn_in_child() -> None:
    code = f"import time\nwhile time.process_time() < {BURN_S}: pass"
    subprocess.run([sys.executable, "-S", "-c", code], check=True)


def use_much(megabytes: int, path: str) -> None:
    memory = bytearray(megabytes << 20)
    Path(path).write_bytes(memory[: 1 << 20])
    burn(BURN_S)


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


def use_objects(context: Context) -> list[str | None]:
    return asyncio.run(use_objects_async(context))


async def use_objects_async(context: Context) -> list[str | None]:
    """Every call of its services, from wherever this runs."""
    services = context._services
    await services.put("a/1", b"\0\xff")
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"from a file")
        file.flush()
        await services.put("a/2", Path(file.name))
    services.log(1, b"written")
    services.outputs.append(Stored("report", 3, "abc"))
    services.use(Usage(cpu_s=1.5, peak_mb=7))
    services.use(Usage(cpu_s=0.5, peak_mb=3, sent_bytes=2))
    found = [f"{each.name}:{each.size}" for each in await services.find("a/")]
    return [*found, (await services.read("a/2") or b"").decode(), await _text(services, "a/3")]


async def _text(services: Services, name: str) -> str | None:
    data = await services.read(name)
    return None if data is None else data.decode()


def late_thread(context: Context, pipe: str) -> None:
    """Leaves a thread behind that wants to write when the next job is here."""
    threading.Thread(target=_write_late, args=(context, pipe)).start()


def _write_late(context: Context, pipe: str) -> None:
    with open(pipe) as file:
        file.read()  # until the next job runs
    try:
        asyncio.run(context._services.put("late", b""))
    except SessionEndedError as error:
        tell(pipe + ".2", str(error))


def wait_for_late(pipe: str) -> str:
    tell(pipe, "go")
    with open(pipe + ".2") as file:
        return file.read()


def betray(context: Context) -> None:
    """Says a secret in every way that others could read."""
    token = context.secret("TOKEN")
    context.progress(50, f"logging in with {token}")
    raise KeepTryingError(f"refused {token!r}")


def use_secret(context: Context) -> int:
    return len(context.secret("TOKEN"))


async def use_secret_async(context: Context) -> int:
    return use_secret(context)


def count_on(context: Context, to: int) -> list[int]:
    """Counts from where the attempt before was, which fails at three."""
    start = context.resume or 0
    for number in range(start, to):
        context.sync.checkpoint(number + 1)
        if context.attempt == 1 and number == 2:
            raise RuntimeError("three")
    return [start, to]


async def count_on_async(context: Context, to: int) -> list[int]:
    start = context.resume or 0
    for number in range(start, to):
        await context.checkpoint(number + 1)
        if context.attempt == 1 and number == 2:
            raise RuntimeError("three")
    return [start, to]


def hold_back(context: Context) -> None:
    for number in range(5):
        context.sync.checkpoint(number, every="1h")


def two_steps(context: Context, log: str) -> list[int]:
    first = context.sync.step("first", note, log, "first")
    if context.attempt == 1:
        raise RuntimeError("between")
    return [first, context.sync.step("second", note, log, "second")]


async def two_steps_async(context: Context, log: str) -> list[int]:
    first = await context.step("first", note_async, log, "first")
    if context.attempt == 1:
        raise RuntimeError("between")
    return [first, await context.step("second", note, log, "second")]


def note(log: str, line: str) -> int:
    """How many lines there are now."""
    with open(log, "a+") as file:
        file.write(line + "\n")
        file.flush()
        file.seek(0)
        return len(file.readlines())


async def note_async(log: str, line: str) -> int:
    await asyncio.sleep(0)
    return note(log, line)


handler = JobLogHandler()
handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
records = logging.Logger("shop", logging.DEBUG)
records.addHandler(handler)


def write_lines(context: Context) -> None:
    context.log("one\ntwo")
    context.log("careful", "warning")
    records.debug("small talk")
    records.critical("the end of %s", "it")


async def write_lines_async(context: Context) -> None:
    write_lines(context)


def write_records() -> str:
    """Without a context."""
    records.info("said")
    return "done"


async def write_records_async() -> str:
    return await asyncio.to_thread(write_records)


def write_until_stopped(pipe: str) -> None:
    """Without a context, so that it is interrupted wherever it is: also while it writes."""
    tell(pipe, "begun")
    while True:
        records.info("x" * 100_000)


def emit_values_without_await(context: Context) -> None:
    for number in (1, 2, 3):
        context.sync.emit({"number": number})


async def emit_values(context: Context) -> None:
    for number in range(3):
        await context.emit({"number": number})


def large(size: int) -> str:
    return "x" * size


async def large_async(size: int) -> str:
    return "x" * size


def write_files(context: Context) -> str:
    folder = context.scratch
    assert context.scratch == folder
    (folder / "a table.csv").write_bytes(b"1,2\n" * 300_000)
    context.sync.output(folder / "a table.csv")
    context.sync.output(b"first", "note")
    context.sync.output(b"second", name="note", media="text/plain; charset=utf-8")
    return str(folder)


async def write_files_async(context: Context) -> str:
    folder = context.scratch
    (folder / "a table.csv").write_bytes(b"1,2\n" * 300_000)
    await context.output(str(folder / "a table.csv"))
    await context.output(b"first", "note")
    await context.output(b"second", name="note", media="text/plain; charset=utf-8")
    return str(folder)


def die_in_scratch(context: Context, pipe: str) -> None:
    tell(pipe, str(context.scratch))
    os.kill(os.getpid(), 9)

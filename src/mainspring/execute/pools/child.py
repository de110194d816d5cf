"""The life of one process of the pool: read an order, run it, answer.

Started by `pools.child_process` as a fresh interpreter. Guarantees: it does not outlive its parent (the socket's end
tells it, and on Linux the kernel does, also while it is deep in C code); a job's exception never ends it.

SIGTERM means: end this job. A job that takes a `Context` sees it there, an async one is cancelled, any other is left
by an exception at the line where it stands, so that its `finally` blocks run.
"""

import asyncio
import faulthandler
import os
import pickle
import queue
import signal
import socket
import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from msgspec.structs import replace

from mainspring.core.lifecycle import Reason
from mainspring.errors import InvalidError
from mainspring.execute.context import Context
from mainspring.execute.failure import failure
from mainspring.execute.lifeline import die_with
from mainspring.execute.metering import ProcessMeter
from mainspring.execute.outputs import is_large, keep_result
from mainspring.execute.pools.asking import Asking
from mainspring.execute.pools.frames import (
    Ask,
    Begun,
    Ended,
    Function,
    Log,
    Moved,
    Order,
    decode_for_child,
    encode,
    frame,
    receive_frame,
)
from mainspring.execute.records import current
from mainspring.execute.registry import Kind, Pool
from mainspring.execute.services import Services
from mainspring.execute.steps import call, failed, prepare, refused, wall_clock
from mainspring.execute.sync_context import run_here
from mainspring.execute.targets import load
from mainspring.wire import Outcome, Progress


class _Interrupt(BaseException):
    """Raised by the signal handler inside a job that cannot be told otherwise."""


class Child:
    """One process; only its main thread runs jobs."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._saying = threading.Lock()
        self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self._asking: Asking | None = None
        self._kinds: dict[str, Kind] = {}
        self._loop: asyncio.Runner | None = None
        self._working = False
        self._interruptible = False
        self._missed = False  # asked to stop while it could not be interrupted
        self._context: Context | None = None
        self._task: asyncio.Task[Any] | None = None

    def serve(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the parent's to handle
        signal.signal(signal.SIGTERM, self._on_term)
        threading.Thread(target=self._listen, name="mainspring-orders", daemon=True).start()
        while (order := self._orders.get()) is not None:
            outcome = self._attempt(order)
            self._working = False
            self._say(Ended(outcome))
        if self._loop is not None:
            self._loop.close()

    def _listen(self) -> None:
        """In a thread, so that the parent's end is noticed while a job runs."""
        while (data := receive_frame(self._sock)) is not None:
            order = decode_for_child(data)
            if isinstance(order, Order):
                self._working = True
                self._orders.put(order)
            elif self._asking is not None:
                self._asking.answered(order)
        if self._working:
            os.killpg(0, signal.SIGKILL)
        self._orders.put(None)

    def _attempt(self, order: Order) -> Outcome:
        assignment = order.assignment
        try:
            kind = self._kind(order.function)
        except BaseException as error:  # importing the user's module runs the user's code
            return failed(assignment, failure(Reason.ERROR, error))
        services = self._open(order)
        try:
            args, kwargs, self._context = prepare(assignment, kind, lambda: Context(assignment, self._tell, services))
        except InvalidError as error:
            return refused(assignment, Reason.ARGUMENTS, error)
        if assignment.options.timeout_s is not None:
            self._say(Begun())
        function = partial(kind.function, *args, **kwargs)
        meter = ProcessMeter()
        try:
            outcome = call(assignment, kind, partial(self._run, kind, function), wall_clock)
        except _Interrupt as error:  # it came just after the function's end
            return failed(assignment, failure(Reason.ERROR, error))
        finally:
            self._context = None
        return self._closed(services, replace(outcome, usage=meter.usage()))

    def _open(self, order: Order) -> Services:
        self._missed = False
        self._asking = asking = Asking(self._say)
        current.set(asking.log)
        scratch = None if order.scratch is None else Path(order.scratch)
        services = Services(order.assignment, asking, asking.log, scratch=scratch)
        services.resume = order.resume
        return services

    def _closed(self, services: Services, outcome: Outcome) -> Outcome:
        if is_large(outcome):
            outcome = run_here(keep_result(services, outcome))
        if services.closers:
            run_here(services.close())
        if self._asking is not None:
            self._asking.close()
        self._asking = None
        return services.conclude(outcome)

    def _tell(self, progress: Progress) -> None:
        """In whatever thread the function uses. A thread that outlives its job may still talk: the parent does not listen."""
        self._say(Moved(progress))

    def _say(self, what: Begun | Moved | Log | Ask | Ended) -> None:
        data = frame(encode(what))
        # Half a frame would be the end of all understanding: an interruption waits for the rest.
        interruptible = self._interruptible and threading.current_thread() is threading.main_thread()
        if interruptible:
            self._interruptible = False
        with self._saying:
            self._sock.sendall(data)
        if interruptible:
            self._interruptible = True
            if self._missed:
                self._interrupt()

    def _run(self, kind: Kind, function: Callable[[], Any]) -> object:
        if kind.is_async:
            return self._run_async(function)
        self._interruptible = self._context is None
        try:
            return function()
        finally:
            self._interruptible = False

    def _run_async(self, function: Callable[[], Any]) -> object:
        async def run() -> object:
            self._task = asyncio.current_task()
            try:
                return await function()
            finally:
                self._task = None

        if self._loop is None:
            self._loop = asyncio.Runner()  # one loop for the process, so that the user's clients can live in it
        return self._loop.run(run(), context=copy_context())

    def _on_term(self, _signal: int, _frame: FrameType | None) -> None:
        if self._context is not None:
            self._context.request_stop()
        task = self._task
        if task is not None:
            task.get_loop().call_soon_threadsafe(task.cancel)
        elif self._interruptible:
            self._interrupt()
        else:
            self._missed = True

    def _interrupt(self) -> None:
        self._interruptible = False
        raise _Interrupt("the job was asked to stop")

    def _kind(self, function: Function) -> Kind:
        kind = self._kinds.get(function.name)
        if kind is None:
            loaded = load(function.target)  # first: the exception types may live in the same module
            retry_on, give_up_on = pickle.loads(function.errors)
            kind = Kind(function.name, loaded, pool=Pool.PROCESS, retry_on=retry_on, give_up_on=give_up_on)
            self._kinds[function.name] = kind
        return kind


def main(fd: int, parent: int) -> None:
    die_with(parent)
    faulthandler.enable()  # a segfault says on stderr where
    sock = socket.socket(fileno=fd)
    sock.set_inheritable(False)
    Child(sock).serve()

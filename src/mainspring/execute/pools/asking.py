"""How a function in a process of its own reaches the objects of its job: the child asks, its parent does it and answers.

`Asking` is the child's side, one per attempt; `answer` is the parent's. Guarantees: an answer reaches the thread or the event loop
that asked; after `close` an attempt's calls are errors, so a thread that outlives its job never speaks for the next one.
"""

import asyncio
import itertools
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from pathlib import Path

from mainspring import errors
from mainspring.core.objects import Found
from mainspring.execute.pools.frames import Answer, Ask, Find, Log, Put, Read, Trouble
from mainspring.execute.services import Services

_FRAME = 1_048_576  # of data in a frame; more goes by a file

_numbers = itertools.count(1)  # of the whole process: an answer that comes late is never another attempt's


class Asking:
    """`say` sends one frame; it may block, and any thread may call it."""

    def __init__(self, say: Callable[[Ask | Log], None]) -> None:
        self._say = say
        self._saying = threading.Lock()
        self._asked: dict[int, Future[Answer]] = {}
        self._over = False

    async def put(self, name: str, data: bytes | Path) -> None:
        if isinstance(data, Path):
            await self._ask(_put_file(name, data))
        elif len(data) <= _FRAME:
            await self._ask(Put(name, data))
        else:
            with tempfile.NamedTemporaryFile(prefix="mainspring-put-") as file:
                file.write(data)
                file.flush()
                await self._ask(Put(name, path=file.name))

    async def read(self, name: str) -> bytes | None:
        return (await self._ask(Read(name))).data

    async def find(self, prefix: str) -> list[Found]:
        return (await self._ask(Find(prefix))).found

    def log(self, stream: int, data: bytes) -> None:
        """What an attempt writes after its end is nobody's."""
        with self._saying:
            if not self._over:
                self._say(Log(stream, data))

    def answered(self, answer: Answer) -> None:
        """Called in the thread that reads frames."""
        future = self._asked.pop(answer.number, None)
        if future is not None:
            with suppress(InvalidStateError):  # whoever asked was cancelled
                future.set_result(answer)

    def close(self) -> None:
        """The attempt has ended: nothing that it asks from now on is sent."""
        with self._saying:
            self._over = True
        for number in list(self._asked):
            self.answered(Answer(number, trouble=Trouble("SessionEndedError", ["the attempt has ended"])))

    async def _ask(self, what: Put | Read | Find) -> Answer:
        number = next(_numbers)
        future: Future[Answer] = Future()
        with self._saying:
            if self._over:
                raise errors.SessionEndedError("the attempt has ended")
            self._asked[number] = future
            self._say(Ask(number, what))
        answer = await asyncio.wrap_future(future)
        if answer.trouble is not None:
            raise _error(answer.trouble)
        return answer


def _put_file(name: str, path: Path) -> Put:
    """The child's working folder may not be its parent's."""
    return Put(name, path=str(path.absolute()))


async def answer(ask: Ask, services: Services) -> Answer:
    """In the parent."""
    try:
        match ask.what:
            case Put(name, data, path):
                await services.put(name, data if path is None else Path(path))
                return Answer(ask.number)
            case Read(name):
                return Answer(ask.number, await services.read(name))
            case Find(prefix):
                return Answer(ask.number, found=await services.find(prefix))
    except Exception as error:
        return Answer(ask.number, trouble=_trouble(error))


def _trouble(error: Exception) -> Trouble:
    if isinstance(error, errors.InvalidError):
        return Trouble("InvalidError", [error.field, error.problem])
    known = isinstance(error, errors.MainspringError)
    return Trouble(type(error).__name__ if known else "MainspringError", [str(error)])


def _error(trouble: Trouble) -> errors.MainspringError:
    found: Callable[..., errors.MainspringError] = getattr(errors, trouble.type, errors.MainspringError)
    return found(*trouble.words)

"""A registered function: called as before, or submitted.

`submit` and `job` have the function's own signature, so a type checker sees a wrong argument, and options can never clash with
a parameter's name because they go through `.options(...)`. A `Context` parameter is filled in by the worker and is not
an argument; where it comes first, type checkers know that too.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack

from mainspring.app.handle import Job
from mainspring.app.within import Connection, required
from mainspring.core.draft import Draft
from mainspring.core.options import GivenOptions, JobOptions, merged, parse_options
from mainspring.execute.registry import Kind

if TYPE_CHECKING:
    from mainspring.app.application import App
    from mainspring.app.blocking import SyncFunction

P = ParamSpec("P")
R = TypeVar("R")


class BoundFunction(Generic[P, R]):
    """A function with options for its jobs."""

    def __init__(self, app: "App", kind: Kind, options: JobOptions) -> None:
        self._app = app
        self._options = options
        self.kind = kind

    async def submit(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Durable when this returns."""
        (job,) = await self._app.submit_many([self.job(*args, **kwargs)])
        return job

    def job(self, *args: P.args, **kwargs: P.kwargs) -> Draft:
        """A job to submit later, with `app.submit_many`."""
        return Draft(self.kind.name, self.kind.encode(args, kwargs), self._options)

    def options(self, **options: Unpack[GivenOptions]) -> "BoundFunction[P, R]":
        """The same function with other options; see `mainspring.core.options.GivenOptions` for all of them."""
        return BoundFunction(self._app, self.kind, merged(self._options, parse_options(**options)))

    def within(self, connection: Connection) -> "FunctionWithin[P, R]":
        """The same function, submitting inside a transaction that you have open: its jobs exist if and when you commit.

        connection: what `app.transaction()` gives. On PostgreSQL also your own connection, with its transaction open: of asyncpg,
        of psycopg 3 (AsyncConnection), or of SQLAlchemy (AsyncConnection, AsyncSession). Anything else is an `InvalidError`.
        """
        return FunctionWithin(self._app, self, required(connection))

    @property
    def sync(self) -> "SyncFunction[P, R]":
        """The same calls without asyncio."""
        from mainspring.app.blocking import SyncFunction

        return SyncFunction(self._app.sync, self)


class FunctionWithin(Generic[P, R]):
    """A function whose jobs are part of a transaction."""

    def __init__(self, app: "App", function: BoundFunction[P, R], connection: Connection) -> None:
        self._app = app
        self._function = function
        self._connection = connection

    async def submit(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Part of the transaction when this returns. The job's id is known; the job is seen, and runs, once you commit. If you
        do not, there never was such a job, and its handle finds none."""
        (job,) = await self._app.submit_many([self._function.job(*args, **kwargs)], within=self._connection)
        return job

    def options(self, **options: Unpack[GivenOptions]) -> "FunctionWithin[P, R]":
        """As `function.options(...)`; before or after `within` makes no difference."""
        return FunctionWithin(self._app, self._function.options(**options), self._connection)


class JobFunction(BoundFunction[P, R]):
    """What `@app.job()` makes of a function."""

    def __init__(self, app: "App", kind: Kind, options: JobOptions, function: Callable[..., Any]) -> None:
        super().__init__(app, kind, options)
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__module__ = function.__module__
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself, here and now: nothing is stored."""
        return self.function(*args, **kwargs)

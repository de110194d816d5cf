"""A process that only submits, as a web server does. Writes down every job that was acknowledged; says `done`."""

import asyncio
import sys

from msgspec import Struct, json

from faults import scene
from faults.child_worker import say
from faults.scene import Jobs, make_jobs
from mainspring.store.opening import StoreSettings


class Config(Struct):
    store: StoreSettings
    acks: str
    count: int = 100
    batch: int = 1
    at_once: int = 10
    sync: bool = False


class Submits:
    """The same work through both faces; any error ends the process with a traceback."""

    def __init__(self, jobs: Jobs, config: Config) -> None:
        self._jobs = jobs
        self._config = config

    def run(self) -> None:
        if self._config.sync:
            with self._jobs.app.sync:
                say("ready")
                for number in range(self._config.count):
                    self._acknowledge([self._jobs.quick.sync.submit(number).id])
        else:
            asyncio.run(self._run())
        say("done")

    async def _run(self) -> None:
        config = self._config
        async with self._jobs.app:
            say("ready")
            each = config.count // config.batch // config.at_once
            await asyncio.gather(*(self._submit(each) for _ in range(config.at_once)))

    async def _submit(self, times: int) -> None:
        for _ in range(times):
            drafts = [self._jobs.quick.job(number) for number in range(self._config.batch)]
            self._acknowledge([job.id for job in await self._jobs.app.submit_many(drafts)])

    def _acknowledge(self, ids: list[str]) -> None:
        scene.append(self._config.acks, "\n".join(ids))


def main(config: Config) -> None:
    Submits(make_jobs(config.store), config).run()


if __name__ == "__main__":
    main(json.decode(sys.argv[1], type=Config))

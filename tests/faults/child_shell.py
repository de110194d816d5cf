"""A process that submits and reads on command, so that the test can break the store between two commands.

`submit N` answers `accepted IDS` or `refused ERROR: MESSAGE`; `submit KEY` is one job with that key; `state ID` answers
`state STATE`; the end of its stdin ends it.
"""

import sys

from msgspec import Struct, json

from faults import timing
from faults.child_worker import say
from faults.scene import Jobs, make_jobs
from mainspring.errors import MainspringError
from mainspring.store.opening import StoreSettings


class Config(Struct):
    store: StoreSettings
    patience_s: float | None = None


def answer(jobs: Jobs, line: str) -> str:
    verb, value = line.split()
    app = jobs.app.sync
    if verb == "state":
        return f"state {app.get(value).status().state}"
    try:
        if value.isdigit():
            accepted = app.submit_many(jobs.quick.job(n) for n in range(int(value)))
        else:
            accepted = app.submit_many([jobs.quick.options(key=value).job(0)])
    except MainspringError as error:
        return f"refused {type(error).__name__}: {error}"
    return f"accepted {' '.join(job.id for job in accepted)}"


def main(config: Config) -> None:
    if config.patience_s is not None:
        timing.shorten_patience(config.patience_s)
    jobs = make_jobs(config.store)
    with jobs.app.sync:
        say("ready")
        for line in sys.stdin:
            say(f"answer {answer(jobs, line)}")


if __name__ == "__main__":
    main(json.decode(sys.argv[1], type=Config))

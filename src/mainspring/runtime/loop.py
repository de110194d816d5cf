"""The event loop our own threads and commands run: uvloop where it exists."""

import asyncio
import sys

#: How long one thread may keep the interpreter while another waits for it. Python's default of 5 ms would make the store's
#: writer wait that long for each statement while the loop is busy; measured, a fifth of a millisecond drains a third faster.
SWITCH_INTERVAL_S = 0.0002


def new_event_loop() -> asyncio.AbstractEventLoop:
    if sys.platform == "win32":
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


def share_interpreter() -> None:
    """For a process that schedules and executes: let the writer's thread in often enough."""
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_S))

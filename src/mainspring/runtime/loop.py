"""The event loop our own threads and commands run: uvloop where it exists."""

import asyncio
import gc
import sys

#: How long one thread may keep the interpreter while another waits for it. Python's default of 5 ms would make the store's
#: writer wait that long for each statement while the loop is busy; measured, a fifth of a millisecond drained a quarter faster.
SWITCH_INTERVAL_S = 0.0002

#: New containers between two looks for cyclic garbage. Jobs make thousands that live for milliseconds; with Python's 700, a
#: seventh of the event loop's time went into looking at them.
COLLECT_AFTER = 20_000


def new_event_loop() -> asyncio.AbstractEventLoop:
    if sys.platform == "win32":
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


def tune_interpreter() -> None:
    """For a process that schedules and executes: let the writer's thread in often enough, and look for garbage less often.

    What exists by now, imported modules above all, is not looked at again.
    """
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_S))
    gc.freeze()
    young, middle, old = gc.get_threshold()
    gc.set_threshold(max(young, COLLECT_AFTER), middle, old)

"""A process that has imported everything and forks: each fork is one life (`child_crash`), and ends as any process does.

Importing takes longer than living, and there are hundreds of lives. This process itself opens nothing and starts no thread. It
reads a `Life` from each line, says `ended` and the exit code.
"""

import os
import signal
import sys
import traceback

import uvloop  # noqa: F401
from msgspec import Struct, json

import mainspring.store.postgres
import mainspring.store.sqlite  # noqa: F401
from faults import child_crash
from faults.child_worker import say

_LONGEST_S = 60  # nobody waits for longer


class Life(Struct):
    config: child_crash.Config
    log: str  # of effects
    errors: str  # the file that gets its stderr


def live(life: Life) -> None:
    """In the fork; does not return."""
    code = 1
    try:
        signal.alarm(_LONGEST_S)
        os.environ["FAULTS_LOG"] = life.log
        os.dup2(os.open(life.errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
        child_crash.main(life.config)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def main() -> None:
    say("ready")
    for line in sys.stdin:
        life = json.decode(line, type=Life)
        pid = os.fork()
        if pid == 0:
            live(life)
        say(f"ended {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}")


if __name__ == "__main__":
    main()

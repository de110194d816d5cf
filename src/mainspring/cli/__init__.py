"""The command line: `mainspring`.

`main` is the entry point of the installed command. It imports as little as the command at hand needs, so `mainspring
--version` loads neither Typer nor Rich, and answers with the exit code documented in docs/reference/cli.md.
"""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; answers the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given == ["--version"]:
        from mainspring import __version__

        print(f"mainspring {__version__}")
        return 0
    from mainspring.cli.root import run

    return run(given)

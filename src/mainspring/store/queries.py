"""Named queries and numbered migrations, read from .sql files beside a backend.

A query starts with `-- name: verb_nouns`; the comment lines under it say what it is for. Keeping SQL in .sql files means that it
can be read, explained and compared between backends without reading Python.
"""

import hashlib
import re
from importlib.resources import files

from msgspec import Struct

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_TABLE = re.compile(r"^create table (\w+)", re.MULTILINE)
_WORKS_WITH = re.compile(r"^-- works with: (\d+)$", re.MULTILINE)


class Migration(Struct, frozen=True):
    """One step of the schema; the checksum proves that an applied step is the one we ship."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def tables(self) -> list[str]:
        """What it creates, where names have no schema before them."""
        return _TABLE.findall(self.sql)

    @property
    def works_with(self) -> int:
        """The oldest schema whose code works with the database after this step; its own, unless its header says otherwise."""
        said = _WORKS_WITH.search(self.sql)
        return self.number if said is None else int(said[1])


def load_queries(package: str) -> dict[str, str]:
    """The queries of `queries.sql` in a package, by name."""
    parts = _NAME.split(files(package).joinpath("queries.sql").read_text())
    return {name: _statement(sql) for name, sql in zip(parts[1::2], parts[2::2], strict=True)}


def load_migrations(package: str) -> list[Migration]:
    """`migrations/NNNN_name.sql` of a package, in order."""
    folder = files(package).joinpath("migrations")
    names = sorted(item.name for item in folder.iterdir() if item.name.endswith(".sql"))
    return [Migration(int(name[:4]), name[5:-4], folder.joinpath(name).read_text()) for name in names]


def _statement(sql: str) -> str:
    return "\n".join(line for line in sql.splitlines() if line and not line.startswith("--")).strip()

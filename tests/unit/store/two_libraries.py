"""A child process: it has a transaction of ours open, touches the file with Python's own sqlite3 if told to, and commits.

Meanwhile another process tries to write, which it should not be able to. Prints what became of that, and whose rows are
left in the end.
"""

import asyncio
import sqlite3
import subprocess
import sys
from pathlib import Path

from mainspring.store.sqlite import SqliteStore

COUNT = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
print(*(who for who, in connection.execute("select who from both order by who")))
"""
WRITE = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.set_busy_timeout(0)
try:
    connection.execute("begin immediate; insert into both values ('theirs'); commit")
    print("wrote")
except apsw.BusyError:
    print("busy")
"""


async def main(path: Path, touch: bool) -> None:
    store = await SqliteStore.open(path)
    async with store.transaction() as tx:
        await tx.execute("create table both (who)")
    async with store.transaction() as tx:
        await tx.execute("insert into both values ('ours')")
        if touch:
            library = sqlite3.connect(path)
            library.execute("select count(*) from both").fetchall()
            library.close()
        print(run(WRITE, path))
    await store.close()


def run(program: str, path: Path) -> str:
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    file = Path(sys.argv[1])
    asyncio.run(main(file, sys.argv[2] == "touch"))
    print(run(COUNT, file))

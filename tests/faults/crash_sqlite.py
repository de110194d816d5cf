"""Where a process on SQLite can end: around the group commits of the writer, and where a file is made."""

from typing import Any

from faults.countdown import Countdown, around
from mainspring.store.sqlite import SqliteStore, database
from mainspring.store.sqlite.writer import Writer


def writes(verb: str) -> bool:
    return bool({"_write", "_writer"} & set(getattr(SqliteStore, verb).__code__.co_names))


def end_at_verb(verb: str, point: str, crash: Countdown) -> None:
    real_commit, real_apply = Writer._commit, Writer._apply

    def name_of(operation: Any) -> str:
        return str(operation.args[0].__name__)

    def commit(self: Writer, group: list[tuple[Any, Any]]) -> Any:
        concerned = any(name_of(operation) == verb for operation, _ in group)
        if concerned and point == "before":
            crash()
        answers = real_commit(self, group)
        if concerned and point == "committed":
            crash()
        return answers

    def apply(self: Writer, tx: Any, operation: Any) -> Any:
        answer = real_apply(self, tx, operation)
        if point == "written" and name_of(operation) == verb:
            crash()
        return answer

    Writer._commit, Writer._apply = commit, apply  # type: ignore[method-assign]


def end_at_open(point: str, crash: Countdown) -> None:
    match point:
        case "before migrating":
            around(database, "_apply_missing", crash, before=True)
        case "migrated, not committed":
            around(database, "_apply_missing", crash, before=False)
        case _:
            around(SqliteStore, "__init__", crash, before=True)

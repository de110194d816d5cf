"""What a command prints: a document for machines or a view for people, never both.

Every command makes one `Output` and calls `show` (a command's answer) or `line` (one of a stream). Rich is imported only when
a person reads. Stored text is cleaned before it reaches the terminal, and never read as markup.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import json

from mainspring.core.words import clean, clean_json

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_WIDE = 10_000  # what is not a terminal gets whole lines

COLOURS = {
    "completed": "green",
    "failed": "red",
    "cancelled": "yellow",
    "running": "cyan",
    "assigned": "cyan",
    "blocked": "magenta",
    "skipped": "magenta",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
}


class Output:
    """Standard output in the form that was asked for."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self._console: Console | None = None

    def show(self, document: object, view: "Callable[[], Iterable[RenderableType]]") -> None:
        """The command's answer. `view` makes what people see; it is not called for machines."""
        if self.as_json:
            self.line(document)
            return
        shown = [text(part) if isinstance(part, str) else part for part in view()]
        if self.console.is_terminal:
            self.console.print(*shown, sep="\n")
            return
        with self.console.capture() as capture:
            self.console.print(*shown, sep="\n")
        self.say("\n".join(line.rstrip() for line in capture.get().splitlines()))

    def line(self, document: object) -> None:
        """One JSON document on one line, at once."""
        sys.stdout.write(clean_json(json.encode(document).decode()) + "\n")
        sys.stdout.flush()

    def say(self, text: str) -> None:
        """A line for people."""
        print(clean(text), flush=True)

    @property
    def console(self) -> "Console":
        if self._console is None:
            from rich.console import Console

            width = None if sys.stdout.isatty() else _WIDE
            self._console = Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)
        return self._console


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[str] = ()) -> "RenderableType":
    """Columns without borders; words that have a colour get it."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for place, column in enumerate(columns):
        made.add_column(column, justify="right" if column in right else "left", no_wrap=place == 0)
    for row in rows:
        texts = [clean(str(value), one_line=True) for value in row]
        made.add_row(*(Text(text, style=COLOURS.get(text, "")) for text in texts))
    return made


def fields(pairs: Iterable[tuple[str, object]]) -> "RenderableType":
    """Names and values, one pair a line; a value of None is left out."""
    from rich.table import Table
    from rich.text import Text

    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None:
            text = clean(str(value))
            made.add_row(name, Text(text, style=COLOURS.get(text, "")))
    return made


def text(value: str, style: str = "") -> "RenderableType":
    from rich.text import Text

    return Text(clean(value), style=style)


def pretty_json(data: bytes | None) -> str:
    """Stored JSON for people."""
    return "null" if data is None else json.format(data, indent=2).decode()

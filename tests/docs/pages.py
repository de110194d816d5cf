"""Reading the documentation: its pages, their code, their links.

The convention, which readers of a page do not see:

- the ```python blocks of a page run in order, in one namespace and one folder of their own; top-level `await` is allowed, and
  tasks that a block leaves behind go on in the next one;
- a block whose first line is a comment with a file name (`# tasks.py`) is written to that file, which later blocks may
  import; files named `test_*.py` are then run by pytest;
- `<!-- not run: reason -->` above a block skips it;
- `<!-- run` … `-->` is code that runs and is not shown;
- `<!-- serve` … `-->` is an application: a server runs it from there on, with MAINSPRING_SERVER and MAINSPRING_KEY set, and the
  ```sh blocks of such a page run too, in bash, and must not be answered with a problem.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

_FENCE = re.compile(r"```(\w*)")
_NOT_RUN = re.compile(r"<!-- not run: \S.* -->")
_FILE = re.compile(r"# (\w+\.py)$")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE_SPAN = re.compile(r"`[^`]*`")


class Block(NamedTuple):
    """Code of a page; `line` is the page's line that the code starts on, counted from 1."""

    line: int
    code: str
    language: str = "python"  # or "sh", or "serve"

    @property
    def file(self) -> str | None:
        """The name of the file that the block is, if it is one."""
        found = _FILE.match(self.code.split("\n", 1)[0])
        return found[1] if found else None


def blocks(page: Path) -> list[Block]:
    """The code of a page that shall run, in order."""
    return list(_blocks(page.read_text().splitlines()))


def _blocks(lines: list[str]) -> Iterator[Block]:
    skip = False
    languages = {"python", "sh"} if "<!-- serve" in lines else {"python"}
    numbers = iter(range(len(lines)))
    for number in numbers:
        line = lines[number]
        if line in ("<!-- run", "<!-- serve"):
            yield _until("-->", lines, number, numbers, "python" if line == "<!-- run" else "serve")
        elif fence := _FENCE.fullmatch(line):
            block = _until("```", lines, number, numbers, fence[1])
            if fence[1] in languages and not skip:
                yield block
        skip = bool(_NOT_RUN.fullmatch(line)) or (skip and not line.strip())


def _until(end: str, lines: list[str], start: int, numbers: Iterator[int], language: str) -> Block:
    code: list[str] = []
    for number in numbers:
        if lines[number] == end:
            return Block(start + 2, "\n".join(code) + "\n", language)
        code.append(lines[number])
    raise AssertionError(f"line {start + 1}: a block that does not end")


def links(page: Path) -> list[str]:
    """The targets of a page's links that stay inside the project."""
    return [link for link in _LINK.findall(_prose(page)) if not re.match(r"[a-z]+:", link)]


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as links spell them."""
    headings = re.findall(r"^#+ (.+)$", _prose(page, spans=True), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _prose(page: Path, *, spans: bool = False) -> str:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return text if spans else _CODE_SPAN.sub("``", text)

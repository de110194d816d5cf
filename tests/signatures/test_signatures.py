"""A type checker sees a wrong argument: `submit` and `job` carry the function's own signature, options have types."""

from pathlib import Path

from mypy import api

_HEAD = """
from mainspring import App, Context, Transaction

app = App()

@app.job(queue="mail", retries=5, timeout="30s")
async def send(to: str, subject: str = "") -> int:
    return 1

@app.job()
def size(ctx: Context, path: str) -> float:
    return 1.0

async def main(tx: Transaction) -> None:
"""


_WRONG = {
    "await send.submit(3)": 'has incompatible type "int"; expected "str"',
    "await send.submit()": 'Missing positional argument "to"',
    "send.job('a', colour='red')": 'Unexpected keyword argument "colour"',
    "await send.options(delay='10m').submit(3)": 'expected "str"',
    "send.options(colour='red')": 'Unexpected keyword argument "colour"',
    "send.options(priority='high')": 'has incompatible type "str"',
    "await size.submit(3)": 'has incompatible type "int"; expected "str"',
    "text: str = await (await send.submit('a')).result()": 'has type "int", variable has type "str"',
    "await send.within(tx).submit(3)": 'has incompatible type "int"; expected "str"',
    "send.within(3)": 'has incompatible type "int"',
    "send.within(None)": 'has incompatible type "None"',
    "send.within(tx).job('a')": 'has no attribute "job"',
    "send.sync.within(tx)": 'has incompatible type "Transaction"',
    "await app.submit_many([send.job('a')], within=app)": 'has incompatible type "App"',
    "count: int = (await tx.execute('select 1'))[0]": 'has type "tuple[Any, ...]", variable has type "int"',
    "name: str = send.sync.submit('a').result()": 'has type "int", variable has type "str"',
}
_RIGHT = [
    "number: int = await (await send.submit('a', subject='b')).result(timeout=10)",
    "await app.submit_many([send.job('a'), size.job('b'), send.options(delay='10m', tags=['x']).job('c')])",
    "sent: int = await (await send.within(tx).options(delay='10m').submit('a')).result()",
    "also: int = await (await send.options(delay='10m').within(tx).submit('a')).result()",
    "await app.submit_many([send.job('a')], within=tx)",
    "rows: list[tuple[str, int]] = [(name, size) for name, size in await tx.execute('select 1, $1', 2)]",
    "share: float = await (await size.submit('a')).result()",
]


def test_a_type_checker_sees_what_is_wrong_and_only_that(tmp_path: Path) -> None:
    lines = [*_WRONG, *_RIGHT]
    sample = tmp_path / "sample.py"
    sample.write_text(_HEAD + "".join(f"    {line}\n" for line in lines))
    arguments = ["--strict", "--no-error-summary", "--hide-error-context", "--cache-dir", str(tmp_path / "cache")]
    said, complaints, _ = api.run([*arguments, "--config-file", "", str(sample)])
    assert complaints == ""
    first = _HEAD.count("\n") + 1
    found = {int(line.split(":")[1]): line for line in said.splitlines() if ": error: " in line}
    assert found.keys() == {first + place for place in range(len(_WRONG))}, said
    for place, complaint in enumerate(_WRONG.values()):
        assert complaint in found[first + place]

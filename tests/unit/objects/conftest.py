"""Each test that asks for a url runs over a folder and over S3; `agree` is a store's, in memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import absent
from objects.seaweed import BUCKET, Seaweed
from postgres.server import NoServerError


@pytest.fixture(scope="session")
def seaweed() -> Iterator[Seaweed]:
    """An S3 server for all tests of this process."""
    try:
        server = Seaweed.start()
    except NoServerError as error:
        absent(str(error))
    yield server
    server.close()


@pytest.fixture(params=["folder", "s3"])
def url(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "folder":
        return str(folder / "objects")
    for name, value in request.getfixturevalue("seaweed").environ().items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{folder.name}"


class Settings:
    """What a store's `agree` does."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    async def agree(self, name: str, value: str | None) -> str | None:
        if value is not None:
            self.values.setdefault(name, value)
        return self.values.get(name)

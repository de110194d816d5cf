"""docs/reference/openapi.json is what the server does: the file is current, and random requests find nothing else."""

import json
from pathlib import Path

from mainspring.api.openapi import text
from mainspring.api.rooms import OPERATIONS

FILE = Path(__file__).parents[2] / "docs" / "reference" / "openapi.json"


def test_the_file_is_current() -> None:
    assert FILE.read_text() == text(), "run `python -m mainspring.api.openapi > docs/reference/openapi.json`"


def test_everything_is_described() -> None:
    document = json.loads(text())
    described = {
        operation["operationId"]: operation for methods in document["paths"].values() for operation in methods.values()
    }
    assert described.keys() == {operation.id for operation in OPERATIONS}
    for name, operation in described.items():
        assert operation["summary"], name
        assert operation["description"], name
        assert all(parameter["description"] for parameter in operation["parameters"]), name
        assert "422" in operation["responses"], name
        assert operation["security"] == [{"key": []}] or name in ("health_live", "health_ready", "version")

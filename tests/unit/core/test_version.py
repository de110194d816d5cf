"""The version is written down twice, and is the same."""

import tomllib
from pathlib import Path

import mainspring
from mainspring.core.version import VERSION


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert VERSION == project["version"] == mainspring.__version__

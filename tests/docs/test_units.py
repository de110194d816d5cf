"""The systemd units that the guides show: systemd itself reads them, and has nothing to say."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import PAGES

UNITS = [
    (page.stem, unit)
    for page in PAGES
    for unit in re.findall(r"^```ini\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    if "[Service]" in unit
]


def verified(unit: str, folder: Path) -> str:
    """What `systemd-analyze` says of it. Its program is the one that is installed here: it must be there."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    file = folder / "shown.service"
    ours = Path(sys.executable).with_name("mainspring")
    file.write_text(re.sub(r"^ExecStart=\S+/mainspring ", f"ExecStart={ours} ", unit, flags=re.MULTILINE))
    command = [analyze, "verify", "--man=no", str(file)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    return done.stdout


def test_there_are_units() -> None:
    assert [page for page, _ in UNITS] == ["deployment", "deployment", "operations"]


@pytest.mark.parametrize(("page", "unit"), UNITS)
def test_systemd_understands_all_of_it(page: str, unit: str, folder: Path) -> None:
    assert verified(unit, folder) == ""


def test_a_unit_that_systemd_does_not_understand_is_told(folder: Path) -> None:
    _, unit = UNITS[0]
    assert "Unknown key" in verified(unit.replace("Restart=", "Restarts="), folder)
    assert "not executable" in verified(unit.replace("/mainspring server", "/mainsprung server"), folder)

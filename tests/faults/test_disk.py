"""The disk is full or broken: submits are refused with a clear error, reads work, nothing acknowledged is lost."""

import contextlib
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.checks import check_effects, check_tables
from faults.harness import ON_SQLITE, Child, Site, until
from faults.places import File
from faults.shell import Shell
from faults.small_disk import fill

LEASE_S = 1.0


@pytest.fixture
def disk_site(small_disk: Path, tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path, File(small_disk / "faults.db"))
    yield site
    site.close()


def _check(site: Site, shell: Shell) -> None:
    site.drained()
    check_tables(site)
    assert check_effects(site, shell.accepted).unexplained == 0


def test_a_full_disk(disk_site: Site, small_disk: Path) -> None:
    site = disk_site
    worker, shell = site.worker(lease_s=LEASE_S), Shell(site)
    assert shell.submit(20) is None
    ballast = fill(small_disk)

    refused = shell.refusal()
    assert refused.startswith("StoreUnavailableError")
    assert "is full" in refused
    assert shell.state(shell.accepted[0]) in ("pending", "assigned", "running", "completed")
    time.sleep(2 * LEASE_S)  # full for longer than the worker's lease
    assert shell.submit() is not None
    assert worker.alive

    ballast.unlink()
    shell.recovered()
    _check(site, shell)
    assert worker.alive, worker.errors()


@ON_SQLITE
def test_a_file_that_may_not_grow(site: Site) -> None:
    """The same without root: the process may write no file beyond a size."""
    worker, shell = site.worker(lease_s=LEASE_S), Shell(site)
    assert shell.submit(20) is None
    free = resource.prlimit(shell.child.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(shell.child.pid, resource.RLIMIT_FSIZE, (4096, free[1]))

    refused = shell.refusal()
    assert refused.startswith("StoreUnavailableError")
    assert site.place.settings.place in refused
    assert shell.state(shell.accepted[0]) in ("pending", "assigned", "running", "completed")

    resource.prlimit(shell.child.pid, resource.RLIMIT_FSIZE, free)
    shell.recovered()
    shell.child.kill()
    _check(site, shell)
    assert worker.alive


@contextlib.contextmanager
def _broken_sync(child: Child) -> Iterator[None]:
    """Every fsync of a running process fails, as on a dying disk."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    calls = "fsync,fdatasync"
    command = [strace, "-f", "-e", f"trace={calls}", "-e", f"inject={calls}:error=EIO", "-p", str(child.pid)]
    tracer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert tracer.stderr is not None
    try:
        first = tracer.stderr.readline().decode()
        if "attached" not in first:
            pytest.skip(f"strace may not trace here: {first}")
        # Read on, or a full pipe would stop the tracer and with it the process.
        with subprocess.Popen(["cat"], stdin=tracer.stderr, stdout=subprocess.DEVNULL):
            tracer.stderr.close()
            yield
            tracer.send_signal(signal.SIGINT)
            tracer.wait()
    finally:
        tracer.kill()
        tracer.wait()


@ON_SQLITE
def test_a_disk_that_cannot_sync(site: Site) -> None:
    """An answer is given after the sync: where that fails, the answer is an error."""
    shell = Shell(site)
    assert shell.submit(20) is None
    with _broken_sync(shell.child):
        refused = shell.submit()
        assert refused is not None
        assert refused.startswith("StoreUnavailableError")
        assert "disk" in refused
        assert shell.submit() is not None
        assert shell.state(shell.accepted[0]) == "pending"
    shell.recovered()
    shell.child.kill()
    site.worker()
    _check(site, shell)


@ON_SQLITE
def test_a_worker_whose_disk_cannot_sync(site: Site) -> None:
    """It can neither claim nor report nor renew its lease; when the disk is back, it goes on."""
    worker, shell = site.worker(lease_s=LEASE_S), Shell(site)
    assert shell.submit(20) is None
    until(lambda: len(site.effects()) >= 20, "it works")
    with _broken_sync(worker):
        assert shell.submit(20) is None
        time.sleep(2 * LEASE_S)
    assert shell.submit(20) is None
    _check(site, shell)
    assert worker.alive, worker.errors()

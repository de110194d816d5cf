"""What programs use, end as and leave behind where they work against being counted and ended."""

import pytest

from job_types.programs import shell
from mainspring.execute.sandbox.limits import Limits

WAYS = pytest.mark.parametrize("bare", [False, True], ids=["sandbox", "bare"])


@WAYS
@pytest.mark.usefixtures("sandbox")
async def test_deleted_files_that_are_open_count(bare: bool) -> None:
    hide = "exec 3>f 4>/$TMPDIR/g; rm f /$TMPDIR/g; for i in 3 4; do head -c 9000000 /dev/zero >&$i; done; sleep 5"
    told = await shell(hide, bare=bare, limits=Limits(disk_mb=10))
    assert told.killed == "disk limit of 10 MB"

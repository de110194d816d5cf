"""Our answers against the published test data of three cron projects (origin and licence are in each row)."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.cron import Cron, Days, Dst
from mainspring.errors import CronError

DATA = Path(__file__).parents[2] / "data"
RULES: dict[str, Dst] = {"vixie-debian": "vixie", "vixie-interval": "interval", "skip-gap-double-overlap": "repeat"}
FIELDS = {
    "Seconds": "second",
    "Minutes": "minute",
    "Hours": "hour",
    "Days of month": "day",
    "Months": "month",
    "Days of week": "weekday",
    "": "expression",
}

# (source, line): why our answer differs on purpose.
NEXT_EXCEPTIONS = {
    (
        "HangfireIO/Cronos",
        1674,
    ): "asked at the very instant to which a time in a gap was moved, with 'inclusive': to us that "
    "instant is an occurrence, whoever asks; the source forgets it once the clock shows the end of the gap",
}
FIELD_EXCEPTIONS = {
    "* * *": "too few fields: we blame the expression, the source blames the field at which it ran out of text",
    "* * * *": "the same",
    "*/60 * * * *": "the row holds a part of the message instead of a field",
}


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def row_id(row: dict[str, Any]) -> str:
    return f"{row['source']}:{row['line']}:{row['expr']}"


@pytest.mark.parametrize("row", rows("cron_next_vectors.jsonl"), ids=row_id)
def test_next(row: dict[str, Any]) -> None:
    days: Days = row["domdow"]
    cron = Cron(row["expr"], row["tz"], RULES[row["dst"]], days)
    after = datetime.fromisoformat(row["after"])
    expected = row["expect"] and datetime.fromisoformat(row["expect"])
    found = cron.next(after - timedelta(microseconds=1) if row["inclusive"] else after)
    if (row["source"], row["line"]) in NEXT_EXCEPTIONS:
        assert found == after != expected
    else:
        assert found == expected


@pytest.mark.parametrize("row", rows("cron_parse_vectors.jsonl"), ids=row_id)
def test_parse(row: dict[str, Any]) -> None:
    if row["ok"]:
        Cron(row["expr"])
        return
    with pytest.raises(CronError) as caught:
        Cron(row["expr"])
    if row["expr"].strip() not in FIELD_EXCEPTIONS:
        assert caught.value.field == FIELDS[row["bad_field"]]


def test_rows_keep_their_origin() -> None:
    for row in rows("cron_next_vectors.jsonl") + rows("cron_parse_vectors.jsonl"):
        assert row["source"]
        assert row["commit"]
        assert row["licence"] in ("MIT", "BSD-3-Clause")

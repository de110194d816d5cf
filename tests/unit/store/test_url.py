"""Store URLs: which are taken, which are refused, and that no message ever holds a password."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.errors import InvalidError
from mainspring.store.opening import StoreSettings
from mainspring.store.url import parse_url, secrets_of, shown_url

TAKEN = {
    "postgresql://localhost/jobs": "postgresql://localhost/jobs",
    "postgres://ada@db.example.org:5433/jobs": "postgresql://ada@db.example.org:5433/jobs",
    "postgresql://ada:s3cret@db/jobs": "postgresql://ada@db/jobs",
    "postgresql://ada:s%40c%2Fret@db/jobs?sslmode=require": "postgresql://ada@db/jobs?sslmode=require",
    "postgresql://ada:s3cret@one:1,two:2/jobs": "postgresql://ada@one:1,two:2/jobs",
    "postgresql://ada:s3cret@[::1]:5432/jobs": "postgresql://ada@[::1]:5432/jobs",
    "postgresql://ada:s3cret@/jobs?host=/run/postgresql": "postgresql://ada@/jobs?host=/run/postgresql",
    "postgresql://db/jobs?user=ada&password=s3cret&sslpassword=s3cret": "postgresql://db/jobs?user=ada",
    "sqlite:///jobs.db": "sqlite:///jobs.db",
    "sqlite:////var/lib/a%20b.db": "sqlite:////var/lib/a%20b.db",
}


@pytest.mark.parametrize(("url", "shown"), TAKEN.items())
def test_what_is_taken_is_shown_without_its_password(url: str, shown: str) -> None:
    parsed = parse_url("store", url)
    assert shown_url(parsed) == shown
    assert "cret" not in repr(StoreSettings(parsed)) + StoreSettings(parsed).place
    assert parse_url("store", shown_url(parsed)) == shown_url(parsed)


REFUSED = {
    "nothing": "",
    "a name": "jobs.db",
    "a number": 5,
    "two slashes": "sqlite://jobs.db",
    "no file": "sqlite:///",
    "memory": "sqlite:///:memory:",
    "another database": "mysql://ada:s3cret@db/jobs",
    "a dialect": "postgresql+asyncpg://ada:s3cret@db/jobs",
    "no database": "postgresql://ada:s3cret@db",
    "no database either": "postgresql://ada:s3cret@db/",
    "a slash in the password": "postgresql://ada:s3cret/x@db/jobs",
    "a number and a slash": "postgresql://ada:12/s3cret@db/jobs",
    "a hash": "postgresql://ada:s3cret#x@db/jobs",
    "a question mark": "postgresql://ada:s3cret?x@db/jobs",
    "an at sign": "postgresql://ada:s3cret@x@db/jobs",
    "a port that is none": "postgresql://db:s3cret/jobs",
    "half an address": "postgresql://ada:s3cret@[::1/jobs",
    "a space": "postgresql://ada:s3cret @db/jobs",
    "a line": "postgresql://ada:s3cret@db/jobs\n",
    "a NUL": "postgresql://ada:s3cret@db/jobs\0",
    "no scheme": "ada:s3cret@db/jobs",
}


@pytest.mark.parametrize("url", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_says_why_and_tells_no_password(url: object) -> None:
    with pytest.raises(InvalidError) as caught:
        parse_url("store", url)
    assert caught.value.field == "store"
    assert "s3cret" not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=3, max_size=12))
def test_no_password_however_written_is_ever_shown(text: str) -> None:
    password = f"s3cret{text}s3cret"
    try:
        parsed = parse_url("store", f"postgresql://ada:{password}@db/jobs")
    except InvalidError as error:
        shown = str(error)
    else:
        shown = shown_url(parsed)
        assert password in secrets_of(parsed)
    assert "s3cret" not in shown

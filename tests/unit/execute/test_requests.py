"""What a job of type http would send: secrets in their places, nothing that HTTP cannot carry."""

from typing import Any

import pytest

from mainspring.errors import InvalidError
from mainspring.execute.http.requests import Request, prepare, shown
from mainspring.execute.placeholders import fill, fill_url, fill_value

SECRETS = {"A": "p/a&s=s", "B": "{secret:A}", "HOOK": "https://hooks.example/T/1?x=1", "BREAK": "a\r\nX: 1"}


def request(url: str = "https://example.org/", method: str = "GET", **given: Any) -> Request:
    sign = given.pop("sign", None)
    headers, body = given.get("headers", {}), given.get("body")
    return prepare(url, method, headers, body, secret=SECRETS.__getitem__, sign=sign, default_key="job-1")


def test_a_secret_is_put_in_once_and_escaped_where_it_must_be() -> None:
    assert fill("Bearer {secret:A}", SECRETS.__getitem__) == "Bearer p/a&s=s"
    assert fill("{secret:B}", SECRETS.__getitem__) == "{secret:A}"
    assert fill_url("https://e.org/{secret:A}", SECRETS.__getitem__) == "https://e.org/p%2Fa%26s%3Ds"
    assert fill_url("{secret:HOOK}/{secret:A}", SECRETS.__getitem__) == "https://hooks.example/T/1?x=1/p%2Fa%26s%3Ds"
    value = {"{secret:A}": [1, "x{secret:A}", None], "b": {"c": "{secret:B}"}}
    assert fill_value(value, SECRETS.__getitem__) == {"{secret:A}": [1, "xp/a&s=s", None], "b": {"c": "{secret:A}"}}


def test_bodies_say_what_they_are_unless_the_job_does() -> None:
    assert request(method="POST", body={"a": 1}).body == b'{"a":1}'
    assert request(method="POST", body={"a": 1}).headers["Content-Type"] == "application/json"
    assert request(method="POST", body="ä").headers["Content-Type"] == "text/plain; charset=utf-8"
    assert request(method="POST", body="<a/>", headers={"content-type": "text/xml"}).headers == {
        "content-type": "text/xml",
        "Idempotency-Key": "job-1",
    }
    assert request().headers == {}


def test_what_must_not_be_done_twice_has_a_key_that_stays() -> None:
    assert request(method="POST").headers == {"Idempotency-Key": "job-1"}
    assert request(method="PATCH", headers={"idempotency-key": "mine"}).headers == {"idempotency-key": "mine"}
    assert request(method="PUT").headers == {}


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/",
        "file:///etc/passwd",
        "//example.org",
        "https://",
        "https://example.org:0/",
        "https://example.org:99999/",
        "https://exa mple.org/",
        "https://example.org/\n",
        "https://user:pass@example.org/",
        "https://[::1/",
        "gopher://x",
    ],
)
def test_urls_that_no_request_can_go_to(url: str) -> None:
    with pytest.raises(InvalidError, match=r"^url: ") as refused:
        request(url)
    assert "pass" not in str(refused.value).replace("password", "")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "a"},
        {"content-length": "1"},
        {"Mainspring-Signature": "x"},
        {"A B": "1"},
        {"": "1"},
        {"X": "a\nb"},
        {"X-A": "{secret:BREAK}"},
        {"A": "1", "a": "2"},
    ],
)
def test_headers_that_are_not_the_jobs_to_set(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidError, match=r"^headers") as refused:
        request(headers=headers)
    assert "X: 1" not in str(refused.value)


def test_a_url_is_shown_as_it_was_submitted_without_its_query() -> None:
    assert request("https://example.org/{secret:A}?key={secret:A}").shown == "https://example.org/{secret:A}?…"
    assert shown("https://example.org/a#b?c") == "https://example.org/a"

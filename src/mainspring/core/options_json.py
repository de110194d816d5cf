"""A job's options as a JSON document, and back: what submits over HTTP, stored templates and `client` share. Pure.

The names are those of `GivenOptions`. Times are ISO 8601, durations are `"10m"` or seconds; where either is possible, a text that
begins with a year is a time. `options_document` says everything that was said, so a round trip changes nothing.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import UNSET

from mainspring.core.duration import parse_duration
from mainspring.core.options import Duration, JobOptions, Moment, parse_options
from mainspring.core.retry import Backoff
from mainspring.core.timer import from_micros, read_time
from mainspring.errors import InvalidError

_SAME = ("queue", "tenant", "client", "priority", "complexity", "retries", "key", "limit_key", "secrets")
_BACKOFF = {"base_s", "cap_s"}


def read_options(document: Mapping[str, Any]) -> JobOptions:
    """Check options that came as JSON; what is wrong is an `InvalidError` that names the option."""
    given = dict(document)
    if given.get("at") is not None:
        given["at"] = read_time("at", given["at"])
    for name in ("deadline", "start_by"):
        given[name] = read_moment(name, given.get(name))
    if isinstance(given.get("backoff"), dict):
        given["backoff"] = _read_backoff(given["backoff"])
    return parse_options(**given)


def read_moment(field: str, value: Any) -> Duration | datetime | None:
    """A duration ('2h') or a time ('2030-01-31T09:00:00Z')."""
    if isinstance(value, str) and value[:4].isdigit() and value[4:5] == "-":
        return read_time(field, value)
    found: Duration | None = value
    return found


def _read_backoff(document: dict[str, Any]) -> Backoff:
    if unknown := document.keys() - _BACKOFF:
        raise InvalidError("backoff", f"{min(unknown)!a} is no part of it; there are base_s and cap_s")
    return Backoff(**{name: parse_duration(f"backoff.{name}", value) for name, value in document.items()})


def options_document(options: JobOptions) -> dict[str, Any]:
    """What `read_options` reads back."""
    said = {name: value for name in _SAME if (value := getattr(options, name)) is not UNSET}
    if options.backoff is not UNSET:
        said["backoff"] = {"base_s": options.backoff.base_s, "cap_s": options.backoff.cap_s}
    lengths = {"timeout": options.timeout_s, "unique": options.unique_s, "cache": options.cache_s}
    lengths["result_ttl"] = options.result_ttl_s
    said |= {name: length for name, length in lengths.items() if length is not UNSET}
    if options.due is not UNSET:
        said["delay" if options.due.at is None else "at"] = _moment(options.due)
    for name, moment in (("deadline", options.deadline), ("start_by", options.start_by)):
        if moment is not UNSET:
            said[name] = _moment(moment)
    if options.tags is not UNSET:
        said["tags"] = list(options.tags)
    if options.labels is not UNSET:
        said["labels"] = sorted(options.labels)
    return said | _resources(options)


def _moment(moment: Moment) -> str | float:
    return moment.after_s or 0.0 if moment.at is None else from_micros(moment.at).isoformat().replace("+00:00", "Z")


def _resources(options: JobOptions) -> dict[str, Any]:
    """Nothing of a machine, where that was said, is no GPU."""
    if options.resources is UNSET:
        return {}
    needs = options.resources
    found: dict[str, Any] = {"gpu": needs.gpu}
    if needs.cpu:
        found["cpu"] = needs.cpu
    if needs.memory_mb:
        found["memory_mb"] = needs.memory_mb
    return found

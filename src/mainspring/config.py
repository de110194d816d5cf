"""Settings of a process, each from an argument, else its environment variable, else its default.

store            MAINSPRING_STORE           sqlite:///mainspring.db; also http://… or https://…, which is a server
key              MAINSPRING_KEY             none    servers: the key that says who asks
join_token       MAINSPRING_JOIN_TOKEN      none    workers at a server, instead of a key: exchanged once for one
ca_file          MAINSPRING_CA_FILE         the system's    servers with https: certificates to trust
schema           MAINSPRING_SCHEMA          mainspring   PostgreSQL: the schema that holds our tables
listen_url       MAINSPRING_LISTEN_URL      none    PostgreSQL behind a pooler: a direct connection for wake-ups
objects          MAINSPRING_OBJECTS         beside the SQLite file, else ./mainspring-objects: a folder or s3://bucket/prefix
                 MAINSPRING_SECRET_KEYS     none    master keys for secrets: `id:base64,…`, the current one first (`secrets.keys`)
                 MAINSPRING_SECRET_KEYS_FILE  none  the same, from a file
slots            MAINSPRING_SLOTS           100     jobs that one worker runs at once
types            MAINSPRING_TYPES           none    job types that the worker runs: script,http,sql,container, or all it has
grace            MAINSPRING_GRACE           30s     for running jobs when the process is asked to stop
retention        MAINSPRING_RETENTION       7d      how long completed and cancelled jobs are kept
failed_retention MAINSPRING_FAILED_RETENTION 30d    how long failed ones are
log_limit        MAINSPRING_LOG_LIMIT       64      MiB that are kept of what one attempt writes
host             MAINSPRING_HOST            127.0.0.1   where `mainspring server` listens
port             MAINSPRING_PORT            8420
tls_cert         MAINSPRING_TLS_CERT        none    its certificate chain, a PEM file
tls_key          MAINSPRING_TLS_KEY         none    the key to it
url              MAINSPRING_URL             none    how other servers reach this one
"""

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from mainspring.client.settings import ServerSettings, checked_settings, is_safe, is_server
from mainspring.core.duration import parse_duration
from mainspring.core.options import Duration
from mainspring.errors import InvalidError
from mainspring.execute.logs import DEFAULT_LIMIT, MIB
from mainspring.execute.types.catalogue import read_names
from mainspring.store.opening import DEFAULT_SCHEMA, StoreSettings
from mainspring.store.url import is_postgres, parse_url

DEFAULT_STORE = "sqlite:///mainspring.db"
DEFAULT_SLOTS = 100
MAX_SLOTS = 100_000
MAX_LOG_LIMIT = 1_048_576  # MiB
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8420

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_NOT_OURS = ("public", "information_schema")


class RunSettings(Struct, frozen=True):
    """What `app.run` works with."""

    slots: int
    grace_s: float
    keep_s: float
    keep_failed_s: float
    log_limit: int = DEFAULT_LIMIT  # bytes
    types: tuple[str, ...] = ()


class ServeSettings(Struct, frozen=True, kw_only=True):
    """Where the HTTP API listens, and to whom. `keys` False: everybody may do everything; on the loopback only."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    tls_cert: str | None = None
    tls_key: str | None = None
    keys: bool = True
    url: str | None = None

    @property
    def address(self) -> str:
        """For people on this machine."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.tls_cert is None else 'https'}://{host}:{self.port}"


def app_settings(
    store: str | None = None,
    *,
    schema: str | None = None,
    listen_url: str | None = None,
    objects: str | None = None,
    key: str | None = None,
    ca_file: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> StoreSettings | ServerSettings:
    """Where an application's jobs are: in a store, or behind a server."""
    url = store if store is not None else environ.get("MAINSPRING_STORE")
    if not is_server(url):
        _refuse_given("has no effect on a store: leave it out, or name a server", key=key, ca_file=ca_file)
        return store_settings(store, schema=schema, listen_url=listen_url, objects=objects, environ=environ)
    problem = "has no effect on a server: leave it out, or name a store"
    _refuse_given(problem, schema=schema, listen_url=listen_url, objects=objects)
    return server_settings(url, key=key, ca_file=ca_file, environ=environ)


def server_settings(
    url: str | None, *, key: str | None = None, ca_file: str | None = None, environ: Mapping[str, str] = os.environ
) -> ServerSettings:
    """Which server, and who we are there. Variables that are set for others (http:// needs no certificates) do not matter."""
    given = ca_file if ca_file is not None or not is_safe(url) else environ.get("MAINSPRING_CA_FILE")
    return checked_settings(url, key if key is not None else environ.get("MAINSPRING_KEY"), given)


def _refuse_given(problem: str, **given: str | None) -> None:
    for field, value in given.items():
        if value is not None:
            raise InvalidError(field, problem)


def store_settings(
    store: str | None = None,
    *,
    schema: str | None = None,
    listen_url: str | None = None,
    objects: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> StoreSettings:
    """Which store, and how to reach it. What would have no effect is refused: somebody meant something by it."""
    url = parse_url("store", store if store is not None else environ.get("MAINSPRING_STORE", DEFAULT_STORE))
    kept = objects if objects is not None else environ.get("MAINSPRING_OBJECTS")
    if not is_postgres(url):
        _refuse_without_postgres(schema, listen_url, environ)
        return StoreSettings(url, objects=kept)
    direct = listen_url if listen_url is not None else environ.get("MAINSPRING_LISTEN_URL")
    name = schema if schema is not None else environ.get("MAINSPRING_SCHEMA", DEFAULT_SCHEMA)
    return StoreSettings(url, _schema(name), None if direct is None else _listen_url(direct), kept)


def _refuse_without_postgres(schema: str | None, listen_url: str | None, environ: Mapping[str, str]) -> None:
    for field, given in (("schema", schema), ("listen_url", listen_url)):
        if given is not None:
            raise InvalidError(field, "has no effect on a SQLite store: leave it out, or name a PostgreSQL store")
        if (variable := f"MAINSPRING_{field.upper()}") in environ:
            raise InvalidError(variable, "has no effect on a SQLite store: unset it, or name a PostgreSQL store")


def _schema(name: object) -> str:
    if not isinstance(name, str) or not _SCHEMA.fullmatch(name):
        raise InvalidError(
            "schema",
            f"{name!r} is not a name: expected up to 40 lower-case letters, digits and _, not starting with a digit",
        )
    if name in _NOT_OURS or name.startswith("pg_"):
        raise InvalidError("schema", f"{name!r} belongs to others: Mainspring keeps its tables in a schema of its own")
    return name


def _listen_url(given: object) -> str:
    url = parse_url("listen_url", given)
    if not is_postgres(url):
        raise InvalidError("listen_url", "expected a PostgreSQL URL: a direct connection to the same database")
    return url


def join_token_setting(given: str | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """The token that a worker without a key enrols with."""
    token = given if given is not None else environ.get("MAINSPRING_JOIN_TOKEN")
    if token is not None and (not token.isascii() or not token.isprintable() or not token or " " in token):
        raise InvalidError(
            "join_token", "holds characters that no token has: was it copied completely, without quotes?"
        )
    return token


def run_settings(
    *,
    slots: int | None = None,
    grace: Duration | None = None,
    retention: Duration | None = None,
    failed_retention: Duration | None = None,
    log_limit: int | None = None,
    types: str | Iterable[str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> RunSettings:
    return RunSettings(
        slots=_slots(slots if slots is not None else environ.get("MAINSPRING_SLOTS", DEFAULT_SLOTS)),
        grace_s=_duration("grace", grace, environ, "30s"),
        keep_s=_duration("retention", retention, environ, "7d"),
        keep_failed_s=_duration("failed_retention", failed_retention, environ, "30d"),
        log_limit=_log_limit(log_limit if log_limit is not None else environ.get("MAINSPRING_LOG_LIMIT")),
        types=read_names("types", types if types is not None else environ.get("MAINSPRING_TYPES", "")),
    )


def _duration(field: str, given: Duration | None, environ: Mapping[str, str], default: str) -> float:
    value = given if given is not None else environ.get(f"MAINSPRING_{field.upper()}", default)
    return parse_duration(field, value)


def _slots(value: object) -> int:
    return _number("slots", value, MAX_SLOTS)


def _log_limit(value: object) -> int:
    """In bytes; it is said in MiB."""
    return DEFAULT_LIMIT if value is None else _number("log_limit", value, MAX_LOG_LIMIT) * MIB


def _number(field: str, value: object, most: int) -> int:
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if type(number) is not int or not 1 <= number <= most:
        raise InvalidError(field, f"expected a whole number from 1 to {most}, got {value!r}")
    return number


def serve_settings(
    *,
    host: str | None = None,
    port: int | None = None,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    keys: bool = True,
    url: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> ServeSettings:
    """Where to serve. A server without keys is refused wherever others could reach it."""
    place = host if host is not None else environ.get("MAINSPRING_HOST", DEFAULT_HOST)
    if not keys and not is_loopback(place):
        raise InvalidError(
            "no_keys", f"everybody who reaches {place} could do everything: leave it out, or listen on {DEFAULT_HOST}"
        )
    cert = tls_cert if tls_cert is not None else environ.get("MAINSPRING_TLS_CERT")
    key = tls_key if tls_key is not None else environ.get("MAINSPRING_TLS_KEY")
    _check_tls(cert, key)
    reached = url if url is not None else environ.get("MAINSPRING_URL")
    return ServeSettings(
        host=place,
        port=_port(port if port is not None else environ.get("MAINSPRING_PORT", DEFAULT_PORT)),
        tls_cert=cert,
        tls_key=key,
        keys=keys,
        url=None if reached is None else checked_settings(reached, None, None).url,
    )


def is_loopback(host: str) -> bool:
    """Can only this machine reach it?"""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_tls(cert: str | None, key: str | None) -> None:
    if (cert is None) != (key is None):
        raise InvalidError("tls_key" if key is None else "tls_cert", "a certificate and its key go together: give both")
    for field, path in (("tls_cert", cert), ("tls_key", key)):
        if path is not None and not Path(path).is_file():
            raise InvalidError(field, f"there is no file {path}")


def _port(value: object) -> int:
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if type(number) is not int or not 0 <= number <= 65_535:
        raise InvalidError("port", f"expected a number from 0 (any free one) to 65535, got {value!r}")
    return number

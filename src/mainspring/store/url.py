"""Where a store is: URLs that name one, read strictly, and shown without their secrets.

Whatever a message says about a URL goes through `shown_url`, or says no more than its scheme: a password that was mistyped into the
wrong place must not end up in a log.
"""

import re
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from mainspring.errors import InvalidError

SQLITE = "sqlite:///"
POSTGRES = "postgresql://"

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_HOST = re.compile(r"(\[[0-9a-f:.%a-z]+\]|[^\[\]:@/]*)(:\d{1,5})?", re.IGNORECASE)
_ALIASES = ("postgresql://", "postgres://")
_FORMS = "use sqlite:///FILE or postgresql://USER@HOST/DATABASE"
_ESCAPES = (
    "characters such as @ : / ? # in a user name or password are written as percent escapes (%40 %3A %2F %3F %23)"
)


def parse_url(field: str, value: object) -> str:
    """A store's URL as everything behind this works with it."""
    if not isinstance(value, str):
        raise InvalidError(field, f"expected a URL, got {type(value).__name__}; {_FORMS}")
    if any(character.isspace() or not character.isprintable() for character in value):
        raise InvalidError(field, "a URL has no spaces and no control characters; write them as percent escapes")
    if value.startswith(_ALIASES):
        return _parse_postgres(field, value)
    if not value.startswith(SQLITE):
        raise InvalidError(field, f"{_glimpse(value)} is not a store; {_FORMS}")
    if value == SQLITE:
        raise InvalidError(field, "it names no file: sqlite:///FILE (relative) or sqlite:////PATH/FILE")
    if value.endswith(":memory:"):
        raise InvalidError(field, "a store in memory would lose every job with its process: name a file")
    return value


def is_postgres(url: str) -> bool:
    return url.startswith(POSTGRES)


def shown_url(url: str) -> str:
    """For people and logs: everything but secrets."""
    if not is_postgres(url):
        return url
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    shown = parts._replace(netloc=f"{user.partition(':')[0]}{at}{hosts}", query=_without_secrets(parts.query))
    return _joined(shown)


def secrets_of(url: str) -> list[str]:
    """The passwords in a URL, as they are written there."""
    parts = urlsplit(url)
    return [
        parts.netloc.rpartition("@")[0].partition(":")[2],
        *(value for name, value in parse_qsl(parts.query) if _is_secret(name)),
    ]


def _parse_postgres(field: str, value: str) -> str:
    try:
        parts = urlsplit(POSTGRES + value.partition("://")[2])
    except ValueError:
        raise InvalidError(field, f"not a URL that can be read: {_ESCAPES}") from None
    database = parts.path.removeprefix("/")
    hosts = parts.netloc.rpartition("@")[2].split(",")
    if parts.fragment or "#" in value or "@" in parts.netloc.rpartition("@")[0] or re.search("[/@]", database):
        raise InvalidError(field, f"not a URL that can be read: {_ESCAPES}")
    if not all(_HOST.fullmatch(host) for host in hosts):
        raise InvalidError(field, f"HOST:PORT is not a name and a number; {_ESCAPES}")
    if not database:
        raise InvalidError(field, "it names no database: postgresql://USER@HOST/DATABASE")
    return _joined(parts)


def _joined(parts: SplitResult) -> str:
    query = f"?{parts.query}" if parts.query else ""
    return f"{POSTGRES}{parts.netloc}{parts.path}{query}"


def _without_secrets(query: str) -> str:
    return urlencode(
        [pair for pair in parse_qsl(query, keep_blank_values=True) if not _is_secret(pair[0])],
        quote_via=quote,
        safe="/:,",
    )


def _is_secret(name: str) -> bool:
    return "password" in name.lower()


def _glimpse(value: str) -> str:
    """As much of what is no store's URL as can hold no secret."""
    scheme = _SCHEME.match(value)
    if scheme:
        return f"{scheme[0]}…"
    return repr(value) if "@" not in value and len(value) <= 100 else "this"

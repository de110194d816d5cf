"""Which server, and how to reach it: checked before the first request."""

import os

from msgspec import Struct

from mainspring.client.transport import Transport, check_url
from mainspring.errors import InvalidError


class ServerSettings(Struct, frozen=True):
    """`key`: who we are, None where the server asks for none. `ca_file`: certificates to trust instead of the system's.
    `retry_for_s`: how long a server that cannot be reached is tried again."""

    url: str
    key: str | None = None
    ca_file: str | None = None
    retry_for_s: float = 10.0

    @property
    def place(self) -> str:
        """For people and logs."""
        return self.url

    def open(self) -> Transport:
        return Transport(self.url, self.key, ca_file=self.ca_file, retry_for_s=self.retry_for_s)

    def __repr__(self) -> str:
        return f"<ServerSettings {self.url}>"


def is_server(url: object) -> bool:
    """Does this URL name a server, and not a store?"""
    return isinstance(url, str) and url.lower().startswith(("http://", "https://"))


def is_safe(url: object) -> bool:
    return isinstance(url, str) and url.lower().startswith("https://")


def checked_settings(url: object, key: str | None, ca_file: str | None) -> ServerSettings:
    """What is wrong is an `InvalidError` that names it."""
    checked = check_url(url)
    return ServerSettings(checked, None if key is None else _key(key), _ca_file(checked, ca_file))


def _key(key: object) -> str:
    """Never shows what it refuses."""
    if not isinstance(key, str) or not key:
        raise InvalidError("key", "expected the text of a key, such as msk_…")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidError("key", "holds characters that no key has: was it copied completely, and without quotes?")
    return key


def _ca_file(url: str, ca_file: object) -> str | None:
    if ca_file is None:
        return None
    if not isinstance(ca_file, str | os.PathLike):
        raise InvalidError("ca_file", f"expected the path of a file, got {type(ca_file).__name__}")
    path = os.fspath(ca_file)
    if not is_safe(url):
        raise InvalidError("ca_file", "has no effect on an http:// URL: leave it out, or use https://")
    if not os.path.isfile(path):
        raise InvalidError("ca_file", f"there is no file {path}")
    return path

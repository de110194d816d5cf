"""Master keys, which open all that is sealed. They are in the environment or in a file, and never in the store.

`MAINSPRING_SECRET_KEYS="2026-02:base64,2025-07:base64"`, or a file of the same form, a key a line. The first key seals, all of them
open: so keys can be changed while everything runs. A key is 32 random bytes; `mainspring secrets new-key` makes one. No error and
no repr shows a key.
"""

import binascii
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Final

from mainspring.errors import InvalidError, SecretsError

VARIABLE: Final = "MAINSPRING_SECRET_KEYS"
FILE_VARIABLE: Final = "MAINSPRING_SECRET_KEYS_FILE"
KEY_BYTES: Final = 32
NO_KEYS: Final = (
    f"there are no keys for secrets here: set {VARIABLE} or {FILE_VARIABLE}; `mainspring secrets new-key` makes a key"
)

_ID = re.compile(r"[A-Za-z0-9._-]{1,40}")


class MasterKeys:
    """Keys by their ids; `current` is the id of the one that seals."""

    __slots__ = ("_keys", "current")

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = dict(keys)
        self.current = next(iter(self._keys))

    def key(self, id_: str) -> bytes:
        try:
            return self._keys[id_]
        except KeyError:
            raise SecretsError(
                f"this was sealed with the key {id_!r}, which is not among the keys here ({', '.join(self._keys)}): "
                f"add it to {VARIABLE} or {FILE_VARIABLE}, behind the first"
            ) from None

    def __repr__(self) -> str:
        return f"<MasterKeys {', '.join(self._keys)}>"


def read_master_keys(environ: Mapping[str, str]) -> MasterKeys | None:
    """The keys that the environment names; None where it names none."""
    given, path = environ.get(VARIABLE), environ.get(FILE_VARIABLE)
    if given is not None and path is not None:
        raise InvalidError(VARIABLE, f"and {FILE_VARIABLE} are both set: unset one of them")
    if path is not None:
        return parse_keys(FILE_VARIABLE, _read_file(path))
    return None if given is None else parse_keys(VARIABLE, given)


def parse_keys(field: str, text: str) -> MasterKeys:
    """`id:base64`, the current one first; several are parted by commas or line breaks."""
    keys: dict[str, bytes] = {}
    for place, item in enumerate(filter(None, map(str.strip, re.split(r"[,\n]", text))), 1):
        id_, colon, encoded = item.partition(":")
        if not colon or not _ID.fullmatch(id_):
            raise InvalidError(
                field, f"key {place}: expected ID:BASE64, the id of up to 40 letters, digits, '.', '_' and '-'"
            )
        if id_ in keys:
            raise InvalidError(field, f"has two keys with the id {id_!r}")
        keys[id_] = _decoded(field, id_, encoded.strip())
    if not keys:
        raise InvalidError(field, "holds no key: expected ID:BASE64; `mainspring secrets new-key` makes one")
    return MasterKeys(keys)


def new_key(today: date) -> str:
    """A fresh key as it is written into the variable; its id says when it was made."""
    return f"{today:%Y-%m-%d}-{secrets.token_hex(2)}:{b64encode(secrets.token_bytes(KEY_BYTES)).decode()}"


def _decoded(field: str, id_: str, encoded: str) -> bytes:
    try:
        key = b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidError(field, f"the key {id_!r} is not base64") from None
    if len(key) != KEY_BYTES:
        raise InvalidError(field, f"the key {id_!r} has {len(key)} bytes; {KEY_BYTES} are needed")
    return key


def _read_file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except OSError as error:
        raise InvalidError(FILE_VARIABLE, f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidError(FILE_VARIABLE, f"{path} holds more than keys: expected lines of ID:BASE64") from None

"""The envelope: a value, sealed. Pure but for its random numbers.

    sealed:1:<id of the master key>:<wrapped data key>:<value>

Each value has a data key of its own (AES-256-GCM), which is wrapped by a master key: changing master keys rewrites the wrapping,
never the value. The value is bound to its place (`Place`): moved to another tenant, job, name or field it does not open, nor does
anything of which a single bit is different. All of it is ASCII without line breaks, which every store keeps as it is; JSON never
begins so, which is how a sealed value is told from one that was stored before its tenant was sealed.
"""

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, Final

from msgspec import Struct

from mainspring.core.secret import SEALED
from mainspring.errors import SecretsError
from mainspring.secrets.keys import KEY_BYTES, NO_KEYS, MasterKeys

_VERSION: Final = b"1"
_NONCE_BYTES: Final = 12
BROKEN = (
    "a sealed value does not open: it was altered, moved from another place, or sealed with another key of the same id"
)


class Place(Struct, frozen=True):
    """Where a value belongs. `owner`: a job's id in hexadecimal, or the name of a secret."""

    purpose: str
    tenant: str
    owner: str
    field: str

    def encoded(self) -> bytes:
        """Each part behind its length, so that no two places look alike."""
        parts = [part.encode() for part in (self.purpose, self.tenant, self.owner, self.field)]
        return b"".join(len(part).to_bytes(4) + part for part in parts)


def is_sealed(data: bytes) -> bool:
    return data.startswith(SEALED)


def mark_of(key: str) -> bytes:
    """How everything begins that is sealed with this key."""
    return SEALED + _VERSION + b":" + key.encode() + b":"


def seal(keys: MasterKeys | None, place: Place, value: bytes) -> bytes:
    """With the current key."""
    known = required(keys)
    data_key = secrets.token_bytes(KEY_BYTES)
    return _wrapped(known, data_key) + b":" + _encrypted(data_key, value, place.encoded())


def unseal(keys: MasterKeys | None, place: Place, sealed: bytes) -> bytes:
    """The value; `SecretsError` where it is not what was sealed for this place."""
    key, wrapped, value = _parts(sealed)
    return _decrypted(_unwrapped(required(keys), key, wrapped), value, place.encoded())


def rewrap(keys: MasterKeys, sealed: bytes) -> bytes:
    """The same value under the current key; the value itself is not opened."""
    key, wrapped, value = _parts(sealed)
    return _wrapped(keys, _unwrapped(keys, key, wrapped)) + b":" + value


def required(keys: MasterKeys | None) -> MasterKeys:
    if keys is None:
        raise SecretsError(NO_KEYS)
    return keys


def try_keys(keys: MasterKeys | None) -> None:
    """`SecretsError` where nothing can be sealed here."""
    seal(keys, Place("", "", "", ""), b"")


def _wrapped(keys: MasterKeys, data_key: bytes) -> bytes:
    """The head is bound to the wrapping."""
    head = mark_of(keys.current)
    return head + _encrypted(keys.key(keys.current), data_key, head)


def _unwrapped(keys: MasterKeys, key: str, wrapped: bytes) -> bytes:
    return _decrypted(keys.key(key), wrapped, mark_of(key))


def _parts(sealed: bytes) -> tuple[str, bytes, bytes]:
    """Key id, wrapped data key, value."""
    parts = sealed.split(b":")
    if not is_sealed(sealed) or len(parts) != 5 or parts[1] != _VERSION or not parts[2].isascii():
        raise SecretsError(BROKEN)
    return parts[2].decode(), parts[3], parts[4]


def _encrypted(key: bytes, value: bytes, bound: bytes) -> bytes:
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return urlsafe_b64encode(nonce + cipher(key).encrypt(nonce, value, bound))


def _decrypted(key: bytes, encoded: bytes, bound: bytes) -> bytes:
    opener = cipher(key)
    from cryptography.exceptions import InvalidTag

    try:
        data = urlsafe_b64decode(encoded)
        if urlsafe_b64encode(data) != encoded:  # the last character has bits that decoding would overlook
            raise SecretsError(BROKEN)
        value: bytes = opener.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], bound)
        return value
    except (InvalidTag, ValueError):
        raise SecretsError(BROKEN) from None


def cipher(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "cryptography":
            raise
        raise SecretsError("secrets need cryptography: install it with `pip install 'mainspring[secrets]'`") from None
    return AESGCM(key)

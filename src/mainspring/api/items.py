"""The jobs in the body of a batch, in any of its forms: one `RawSubmit` each, or what is wrong with it.

JSON is decoded as a whole, which costs a microsecond per job; where that fails, or where a name seems to be there twice, each job
is read by itself and strictly, so that one bad job is one bad answer. Only a body that cannot be parted into jobs is refused.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgpack  # type: ignore[import-untyped]
from msgspec import DecodeError, Raw, ValidationError, convert, json

from mainspring.api.limits import MAX_BATCH_ITEMS
from mainspring.api.problems import TooLargeError, refuse_decoding
from mainspring.core.jsontext import check_object, read_object
from mainspring.errors import InvalidError, MainspringError
from mainspring.verbs.documents import RawSubmit, SubmitRequest

JSON = "application/json"
LINES = "application/x-ndjson"
MSGPACK = ("application/msgpack", "application/vnd.msgpack", "application/x-msgpack")

Item = RawSubmit | MainspringError

_ITEM = "item"
_UNREADABLE = (DecodeError, UnicodeDecodeError, RecursionError)

_items = json.Decoder(list[RawSubmit])
_parts = json.Decoder(list[Raw])
_item = json.Decoder(RawSubmit)


def read_items(media: str, data: bytes) -> Sequence[Item]:
    """In the order of the body."""
    if media == JSON:
        items: Sequence[Item] = _array(data)
    elif media == LINES:
        items = _lines(data)
    else:
        items = _packed(data)
    if len(items) > MAX_BATCH_ITEMS:
        raise TooLargeError(f"body: has {len(items):,} jobs; at most {MAX_BATCH_ITEMS:,} are allowed in one batch")
    return items


def read_item(data: bytes) -> RawSubmit:
    """One job as JSON; raises what is wrong with it."""
    item = _read_one("body", data)
    if isinstance(item, MainspringError):
        raise item
    return item


def _array(data: bytes) -> Sequence[Item]:
    try:
        items = _items.decode(data)
    except _UNREADABLE:
        return [_read_one(_ITEM, bytes(part)) for part in _split(data)]
    if _names_once(data, items):
        return items
    return [_read_one(_ITEM, bytes(part)) for part in _split(data)]


def _split(data: bytes) -> list[Raw]:
    try:
        return _parts.decode(data)
    except ValidationError:
        raise InvalidError("body", "expected a JSON array of jobs") from None
    except RecursionError:
        raise InvalidError("body", "is nested too deeply") from None
    except (DecodeError, UnicodeDecodeError) as error:
        raise InvalidError("body", f"cannot be read: {error}") from None


def _lines(data: bytes) -> Sequence[Item]:
    try:
        items = _item.decode_lines(data)
    except _UNREADABLE:
        items = []
    if items and _names_once(data, items):
        return items
    return [_read_one(_ITEM, line) for line in data.split(b"\n") if line.strip()]


def _read_one(field: str, data: bytes) -> Item:
    try:
        item = _item.decode(data)
        if _names_once(data, (item,)):
            return item
    except _UNREADABLE:
        pass  # the slow way says what is wrong
    try:
        return _made(read_object(field, data))
    except MainspringError as error:
        return error


def _names_once(data: bytes, items: Sequence[RawSubmit]) -> bool:
    """Is no name of these objects there twice? What is left of a repeated name has fewer quotes than the text; a kind with an
    escaped quote looks the same, and then somebody looks closer."""
    quotes = 0
    for item in items:
        quotes += 4
        if item.arguments is not _NO_ARGUMENTS:
            quotes += 2 + bytes(item.arguments).count(b'"')
        if item.options is not _NO_OPTIONS:
            quotes += 2 + bytes(item.options).count(b'"')
    return quotes == data.count(b'"')


def _packed(data: bytes) -> Sequence[Item]:
    """MessagePack: one array of maps, or maps one after the other."""
    found = list(_unpacked(data))
    if len(found) == 1 and isinstance(found[0], list):
        found = found[0]
    return [_read_packed(values) for values in found]


def _unpacked(data: bytes) -> Iterator[Any]:
    # No array can have more members than the body has bytes: a short body cannot claim a long one.
    most = min(len(data), MAX_BATCH_ITEMS + 1)
    unpacker = msgpack.Unpacker(
        max_buffer_size=max(len(data), 1),
        max_array_len=most,
        max_map_len=most,
        max_ext_len=0,
        object_pairs_hook=_distinct,
        strict_map_key=True,
    )
    unpacker.feed(data)
    while unpacker.tell() < len(data):
        try:
            yield unpacker.unpack()
        except msgpack.OutOfData:
            raise InvalidError("body", "ends in the middle of a MessagePack value") from None
        except (msgpack.UnpackException, ValueError, TypeError) as error:
            raise InvalidError("body", f"is not MessagePack that can be read here: {error}") from None


class _Repeated(dict[Any, Any]):
    """A map that has a name twice."""


def _distinct(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _Repeated(found)


def _read_packed(values: Any) -> Item:
    try:
        if type(values) is not dict:
            raise InvalidError(_ITEM, "has a name twice" if isinstance(values, _Repeated) else "expected a map")
        check_object(_ITEM, values)
        return _made(values)
    except MainspringError as error:
        return error


def _made(values: dict[str, Any]) -> RawSubmit:
    """Values that were read strictly, as a job."""
    try:
        request = convert(values, SubmitRequest)
    except ValidationError as error:
        refuse_decoding(error)
    return RawSubmit(
        kind=request.kind, arguments=Raw(json.encode(request.arguments)), options=Raw(json.encode(request.options))
    )


_WITHOUT = RawSubmit(kind="")
_NO_ARGUMENTS, _NO_OPTIONS = _WITHOUT.arguments, _WITHOUT.options

"""What a function returned, as JSON and back.

`encode_result` runs in the worker, `ResultType.decode` at the caller. None is stored as nothing at all.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from mainspring.core.job import MAX_RESULT_BYTES
from mainspring.errors import InvalidError
from mainspring.execute.arguments import json_types
from mainspring.execute.exact import exact_json


def encode_result(value: object) -> bytes | None:
    """JSON of a result; InvalidError if it has no such form or is too large."""
    if value is None:
        return None
    data = exact_json("result", value)
    if len(data) > MAX_RESULT_BYTES:
        raise InvalidError("result", f"{len(data):,} bytes of JSON are too many: the limit is {MAX_RESULT_BYTES:,}")
    return data


def result_decoder(hint: Any) -> Callable[[bytes], Any]:
    """Reads results as the return annotation says, or as plain JSON where the annotation has no JSON form."""
    try:
        json_types("result", hint)
        return msgspec.json.Decoder(hint).decode
    except (InvalidError, TypeError):
        return msgspec.json.Decoder().decode

"""What a function returned, as JSON and back.

`encode_result` runs in the worker, what `result_decoder` gives at the caller. None is stored as nothing at all; where a large one
goes is in `outputs`.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from mainspring.errors import InvalidError
from mainspring.execute.arguments import json_types
from mainspring.execute.exact import exact_json


def encode_result(value: object) -> bytes | None:
    """JSON of a result; InvalidError if it has no such form."""
    return None if value is None else exact_json("result", value)


def result_decoder(hint: Any) -> Callable[[bytes], Any]:
    """Reads results as the return annotation says, or as plain JSON where the annotation has no JSON form."""
    try:
        json_types("result", hint)
        return msgspec.json.Decoder(hint).decode
    except (InvalidError, TypeError):
        return msgspec.json.Decoder().decode

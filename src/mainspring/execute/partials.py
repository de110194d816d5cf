"""What an attempt gives out while it runs: one object each, whose number is its place in the order."""

from mainspring.errors import InvalidError
from mainspring.execute.exact import encode, may_alter, number_problem, words

MAX_PARTIAL_BYTES = 1_048_576
MAX_PARTIALS = 10_000  # of an attempt


def encode_partial(value: object) -> bytes:
    """JSON of the value; InvalidError if it has no such form, or is too large."""
    try:
        data = encode(value)
        problem = number_problem(value) if may_alter(data) else None
    except Exception as error:  # a value's own code may raise anything
        raise InvalidError("value", words(error)) from None
    if problem is not None:
        raise InvalidError("value", problem)
    if len(data) > MAX_PARTIAL_BYTES:
        raise InvalidError("value", f"{len(data):,} bytes of JSON are too many: the limit is {MAX_PARTIAL_BYTES:,}")
    return data


def check_number(number: int) -> int:
    if number > MAX_PARTIALS:
        raise InvalidError("value", f"an attempt may give out {MAX_PARTIALS:,} partial results; put more into each")
    return number

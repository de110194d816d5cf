"""What a request may cost: every bound of the HTTP API, in one place.

The depth of JSON and the size of arguments are bounded for everybody who submits: `core.jsontext`. So is one object of a job, which
is stored while it comes: `core.objects`.
"""

MAX_BODY = 2 * 1_048_576
MAX_BATCH_BODY = 32 * 1_048_576
MAX_BATCH_ITEMS = 100_000
MAX_WAIT_IDS = 1_000
MAX_WAIT_S = 60.0
MAX_BULK = 10_000
MAX_PAGE = 1_000
MAX_HEADER = 1_000  # characters of a header that we read
MAX_QUERY = 8_192  # characters behind the question mark
MAX_HEAD = 65_536  # bytes of a request line and its headers

#: A head that has not come completely after so long is given up, and so is a connection that says nothing at first.
HEAD_S = 20.0

#: A body that does not come any further for so long is given up.
BODY_SILENCE_S = 20.0

#: What still comes after a refusal is read and forgotten for so long: closing at once could destroy the answer on its way.
LINGER_S = 1.0

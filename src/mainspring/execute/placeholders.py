"""`{secret:NAME}` in the arguments of a job type, replaced when the job runs. Pure.

NAME is one that the job's option `secrets` gives. Values are put in once and are not looked at again: what a secret holds is never
taken for a placeholder.
"""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

_PLACEHOLDER = re.compile(r"\{secret:([^{}]+)\}")

Secret = Callable[[str], str]


def fill(text: str, secret: Secret) -> str:
    return _PLACEHOLDER.sub(lambda found: secret(found[1]), text)


def fill_url(url: str, secret: Secret) -> str:
    """Escaped, so that a secret is one part of the URL whatever it holds; the one that begins the URL is taken as it is."""
    return _PLACEHOLDER.sub(
        lambda found: secret(found[1]) if found.start() == 0 else quote(secret(found[1]), safe=""), url
    )


def fill_value(value: Any, secret: Secret) -> Any:
    """In every text of a JSON value; names of an object's members stay."""
    match value:
        case str():
            return fill(value, secret)
        case list():
            return [fill_value(item, secret) for item in value]
        case dict():
            return {name: fill_value(item, secret) for name, item in value.items()}
    return value

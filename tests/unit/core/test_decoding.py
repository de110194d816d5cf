"""What msgspec refuses, as errors that name the field."""

from typing import Any

import pytest
from msgspec import ValidationError, convert

from mainspring.core.decoding import refused
from mainspring.verbs.documents import TemplateBundle


@pytest.mark.parametrize(
    ("document", "where", "field", "problem"),
    [
        ({}, "", "templates", "is missing"),
        ({}, "bundle", "bundle.templates", "is missing"),
        ({"templates": {}, "more": 1}, "", "more", "is no field here; check its spelling"),
        ({"templates": 1}, "bundle", "bundle.templates", "expected `object`, got `int`"),
        ({"templates": {"a": {}}}, "", "templates[...].kind", "is missing"),
        ([], "", "body", "expected `object`, got `array`"),
        ([], "bundle", "bundle", "expected `object`, got `array`"),
    ],
)
def test_the_field_is_named(document: Any, where: str, field: str, problem: str) -> None:
    with pytest.raises(ValidationError) as caught:
        convert(document, TemplateBundle)
    error = refused(caught.value, where)
    assert (error.field, error.problem) == (field, problem)

"""Templates: what is a hole, what may fill it, and that nothing else means anything."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from mainspring.core.template import Placeholder, PlaceholderType, check_template, fill, has_marker
from mainspring.errors import InvalidError

TO = {"to": Placeholder()}


def filled(value: Any, placeholder: Placeholder, given: Any) -> Any:
    """What becomes of one argument with one hole."""
    check_template({"a": value}, {}, {"x": placeholder})
    arguments, options = fill({"a": value}, {}, {"x": placeholder}, given)
    assert options == {}
    return arguments["a"]


def test_holes_in_arguments_and_options() -> None:
    arguments = {"to": {"$": "to"}, "cc": ["x", {"$": "to"}, {"deep": {"$": "to"}}], "n": 1}
    options = {"key": {"$": "to"}, "priority": 7}
    check_template(arguments, options, TO)
    made = fill(arguments, options, TO, {"to": "ann"})
    assert made == ({"to": "ann", "cc": ["x", "ann", {"deep": "ann"}], "n": 1}, {"key": "ann", "priority": 7})
    assert arguments["to"] == {"$": "to"}  # the template is as it was


def test_defaults_fill_what_is_left_out() -> None:
    assert filled({"$": "x"}, Placeholder(type="integer", default=3), {}) == 3
    assert filled({"$": "x"}, Placeholder(type="integer", default=3), {"x": 4}) == 4
    with pytest.raises(InvalidError, match=r"values\.x: is missing; expected a text"):
        filled({"$": "x"}, Placeholder(), {})


@pytest.mark.parametrize(
    ("arguments", "options", "path"),
    [
        ({"to": {"$": "who"}}, {}, "arguments.to"),
        ({"to": [{"a": 1}, {"b": {"$": "who"}}]}, {}, "arguments.to[1].b"),
        ({}, {"tags": [{"$": "who"}]}, "options.tags[0]"),
        ({}, {}, "placeholders.to"),
        ({"to": "{to} {{to}} ${to} $to %(to)s"}, {}, "placeholders.to"),
    ],
)
def test_undeclared_and_unused_placeholders_are_named(
    arguments: dict[str, Any], options: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidError) as caught:
        check_template(arguments, options, TO)
    assert caught.value.field == path


@pytest.mark.parametrize("value", [{"$": 1}, {"$": None}, {"$": "x", "y": 1}, {"$$": "x"}, {"$": ["x"]}, "$x", "{x}"])
def test_what_is_nearly_a_marker_means_itself(value: Any) -> None:
    check_template({"a": value, "b": {"$": "to"}}, {}, TO)
    assert fill({"a": value, "b": {"$": "to"}}, {}, TO, {"to": "t"})[0]["a"] == value
    assert not has_marker(value)


GOOD: dict[PlaceholderType, list[Any]] = {
    "text": ["", "ä{}", "1"],
    "integer": [0, -(2**63), 2**63 - 1],
    "number": [0, 1.5, -2],
    "boolean": [True, False],
    "time": ["2030-01-31T09:00:00Z", "2030-01-31T09:00:00+02:00"],
    "object": [{}, {"$": "x"}, {"a": [1]}],
    "list": [[], [1, "a", None]],
}
BAD: dict[PlaceholderType, list[Any]] = {
    "text": [1, None, True, ["a"]],
    "integer": [True, 1.0, "1", 2**63, 10**5000, None],
    "number": [True, "1", float("nan"), float("inf"), 2**64, None],
    "boolean": [0, 1, "true", None],
    "time": ["2030-01-31T09:00:00", datetime(2030, 1, 1, tzinfo=UTC), "soon", "", 5, None, "2" * 5000],
    "object": [[], "{}", None, {1: 2}],
    "list": ["ab", {}, None],
}


@pytest.mark.parametrize(("type", "value"), [(type, value) for type in GOOD for value in GOOD[type]], ids=lambda _: "")
def test_values_of_the_type(type: PlaceholderType, value: Any) -> None:
    assert filled({"$": "x"}, Placeholder(type=type), {"x": value}) == value
    assert filled({"$": "x"}, Placeholder(type=type, default=value), {}) == value


@pytest.mark.parametrize(("type", "value"), [(type, value) for type in BAD for value in BAD[type]], ids=lambda _: "")
def test_values_of_another_type(type: PlaceholderType, value: Any) -> None:
    with pytest.raises(InvalidError) as caught:
        filled({"$": "x"}, Placeholder(type=type), {"x": value})
    assert caught.value.field == "values.x"
    assert len(str(caught.value)) < 200
    with pytest.raises(InvalidError) as caught:
        filled({"$": "x"}, Placeholder(type=type, default=value), {})
    assert caught.value.field == "placeholders.x.default"


def test_choices() -> None:
    colour = Placeholder(choices=["red", "blue"])
    assert filled({"$": "x"}, colour, {"x": "red"}) == "red"
    with pytest.raises(InvalidError, match=r"values\.x: 'green' is none of the choices; there are: 'red', 'blue'"):
        filled({"$": "x"}, colour, {"x": "green"})
    with pytest.raises(InvalidError, match=r"values\.x"):
        filled({"$": "x"}, Placeholder(type="integer", choices=[0, 1]), {"x": True})


@pytest.mark.parametrize(
    ("type", "good", "little", "much"),
    [("integer", 2, 1, 4), ("text", "ab", "a", "abcd"), ("list", [1, 2], [], [1] * 4)],
)
def test_bounds(type: PlaceholderType, good: Any, little: Any, much: Any) -> None:
    bounded = Placeholder(type=type, least=2, most=3)
    assert filled({"$": "x"}, bounded, {"x": good}) == good
    for value in (little, much):
        with pytest.raises(InvalidError, match=r"values\.x"):
            filled({"$": "x"}, bounded, {"x": value})


@pytest.mark.parametrize(
    ("placeholder", "field"),
    [
        (Placeholder(choices=[]), "placeholders.x.choices"),
        (Placeholder(choices=["a", 1]), "placeholders.x.choices[1]"),
        (Placeholder(choices=["a"], default="b"), "placeholders.x.default"),
        (Placeholder(type="boolean", least=1), "placeholders.x.least"),
        (Placeholder(type="time", most=1), "placeholders.x.most"),
        (Placeholder(type="integer", least=2, most=1), "placeholders.x.least"),
        (Placeholder(type="integer", most=float("nan")), "placeholders.x.most"),
        (Placeholder(type="integer", least=2, default=1), "placeholders.x.default"),
    ],
)
def test_placeholders_that_make_no_sense(placeholder: Placeholder, field: str) -> None:
    with pytest.raises(InvalidError) as caught:
        filled({"$": "x"}, placeholder, {})
    assert caught.value.field == field


def test_values_that_belong_to_no_placeholder() -> None:
    with pytest.raises(InvalidError, match=r"values\.ot: is no placeholder of this template; there are: to"):
        fill({"to": {"$": "to"}}, {}, TO, {"ot": "a"})


def test_deep_templates_are_refused() -> None:
    deep: Any = {"$": "to"}
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(InvalidError, match="deeper"):
        check_template({"a": deep}, {}, TO)


def test_placeholders_survive_being_stored() -> None:
    for placeholder in (Placeholder(), Placeholder(type="integer", default=0, least=0), Placeholder(default="")):
        assert json.decode(json.encode(placeholder), type=Placeholder) == placeholder


_scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text()
_json = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.just("$"), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), _json, max_size=4))
def test_what_is_filled_in_comes_out_equal(value: dict[str, Any]) -> None:
    """Whatever it holds: markers and braces in it are not looked at."""
    hole = Placeholder(type="object")
    assert filled({"$": "x"}, hole, {"x": value}) == value
    assert filled([{"in": {"$": "x"}}], hole, {"x": value}) == [{"in": value}]


@given(_json.filter(lambda value: not has_marker(value)))
def test_what_holds_no_marker_means_itself(value: Any) -> None:
    check_template({"a": value, "b": {"$": "to"}}, {}, TO)
    assert fill({"a": value, "b": {"$": "to"}}, {}, TO, {"to": "t"})[0] == {"a": value, "b": "t"}


@given(st.text(), st.text())
def test_no_text_is_interpreted(template: str, value: str) -> None:
    arguments = {"text": template, template: {"$": "to"}}
    if template == "text":
        return
    assert fill(arguments, {}, TO, {"to": value})[0] == {"text": template, template: value}

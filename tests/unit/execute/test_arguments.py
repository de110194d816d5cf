import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.job import MAX_ARGUMENTS_BYTES
from mainspring.errors import InvalidError
from mainspring.execute.context import Context
from mainspring.execute.registry import Kind, Pool, Registry


class Address(msgspec.Struct):
    street: str
    number: int = 1


@dataclass
class Person:
    name: str
    home: "Address"


class Settings(TypedDict):
    depth: int


def send(to: str, copies: int = 1, *, subject: str | None = None) -> None: ...
def one(to: str) -> None: ...
def ratio(value: float | None) -> None: ...
def anything(value) -> None: ...  # type: ignore[no-untyped-def]
def nothing() -> None: ...
def count(value: int) -> None: ...
def people(everyone: list[Person]) -> None: ...
def rich(
    when: datetime, price: Decimal, data: bytes, settings: Settings, pair: tuple[int, str], tags: set[str]
) -> None: ...
def with_context(ctx: Context, to: str, copies: int = 2) -> None: ...
def odd_names(__init__: int, mro: int, f0: int, _x: int) -> None: ...


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def looped() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("args", "kwargs", "stored", "call"),
    [
        (("a",), {}, {"to": "a"}, {"to": "a"}),
        (("a", 2), {}, {"to": "a", "copies": 2}, {"to": "a", "copies": 2}),
        ((), {"to": "a", "subject": None}, {"to": "a", "subject": None}, {"to": "a", "subject": None}),
        (("a",), {"subject": "x\0y"}, {"to": "a", "subject": "x\0y"}, {"to": "a", "subject": "x\0y"}),
    ],
)
def test_a_call_survives_storage(args: Any, kwargs: Any, stored: Any, call: Any) -> None:
    kind = Kind("send", send)
    data = kind.encode(args, kwargs)
    assert msgspec.json.decode(data) == stored
    assert kind.decode(data) == ((), call)


def test_a_plain_call_is_positional() -> None:
    kind = Kind("one", one)
    assert kind.decode(kind.encode(("a",), {})) == (("a",), {})


def test_rich_types_come_back_as_annotated() -> None:
    kind = Kind("rich", rich)
    values = (datetime(2030, 1, 2, tzinfo=UTC), Decimal("1.10"), b"\0\xff", {"depth": 3}, (1, "a"), {"x"})
    assert kind.decode(kind.encode(values, {})) == (values, {})


def test_nested_types_come_back_as_annotated() -> None:
    kind = Kind("people", people)
    everyone = [Person("Ada", Address("Main St"))]
    assert kind.decode(kind.encode((everyone,), {})) == ((everyone,), {})


def test_a_context_is_not_an_argument() -> None:
    kind = Kind("with_context", with_context)
    assert kind.decode(kind.encode(("a",), {})) == ((), {"to": "a"})
    assert kind.context_name == "ctx"


def test_parameters_may_have_names_that_attributes_may_not() -> None:
    kind = Kind("odd", odd_names)
    assert kind.decode(kind.encode((1, 2, 3, 4), {})) == ((1, 2, 3, 4), {})


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "message"),
    [
        (send, (), {}, "arguments.to: is missing"),
        (send, (), {"copies": 1}, "arguments.to: is missing"),
        (send, ("a", 1, "s"), {}, "arguments: got 3 positional arguments, expected at most 2 (to, copies)"),
        (nothing, (1,), {}, "arguments: got 1 positional arguments, expected at most none"),
        (send, ("a",), {"to": "b"}, "arguments.to: is given twice, by position and by name"),
        (send, ("a",), {"cc": "b"}, "arguments.cc: is not a parameter; expected to, copies, subject"),
        (send, ("a",), {"\ud800\0": 1}, "arguments.\\ud800\\x00: is not a parameter"),
        (with_context, ("a",), {"ctx": 1}, "arguments.ctx: is not a parameter"),
        (one, (1,), {}, "arguments.to: expected `str`, got `int`"),
        (one, (None,), {}, "arguments.to: expected `str`, got `null`"),
        (count, (True,), {}, "arguments.value: expected `int`, got `bool`"),
        (count, (1.0,), {}, "arguments.value: expected `int`, got `float`"),
        (count, (2**63,), {}, "arguments.value: an integer beyond 64 bits"),
        (count, (-(2**63) - 1,), {}, "arguments.value: an integer beyond 64 bits"),
        (count, (10**5000,), {}, "arguments.value: an integer beyond 64 bits"),
        (anything, ({"a": [2**64]},), {}, "arguments.value: an integer beyond 64 bits"),
        (ratio, (math.nan,), {}, "arguments.value: nan has no JSON form"),
        (ratio, (math.inf,), {}, "arguments.value: inf has no JSON form"),
        (anything, ({"a": [1, -math.inf]},), {}, "arguments.value: -inf has no JSON form"),
        (anything, ((1, math.nan),), {}, "arguments.value: nan has no JSON form"),
        (one, (math.nan,), {}, "arguments.to: nan has no JSON form"),
        (one, ("\ud800",), {}, "arguments.to: holds text that is not valid Unicode"),
        (anything, ({"\udfff": 1},), {}, "arguments.value: holds text that is not valid Unicode"),
        (anything, (object(),), {}, "arguments.value: encoding objects of type object is unsupported"),
        (anything, ({None: 1},), {}, "arguments.value: only dicts with str-like"),
        (people, ([object.__new__(Person)],), {}, "arguments.everyone[0]: object missing required field `name`"),
        (anything, (looped(),), {}, "arguments.value: is nested too deeply"),
        (people, ([Person("Ada", Address("x", "one"))],), {}, "arguments.everyone[0].home.number: expected `int`"),  # type: ignore[arg-type]
    ],
)
def test_a_call_that_does_not_fit_is_refused(
    function: Callable[..., Any], args: Any, kwargs: Any, message: str
) -> None:
    kind = Kind("kind", function)
    with pytest.raises(InvalidError) as refusal:
        kind.encode(args, kwargs)
    assert message in str(refusal.value)


def test_deep_nesting_is_refused_not_a_crash() -> None:
    value = deep(100_000)
    with pytest.raises(InvalidError, match=r"arguments.value: is nested too deeply"):
        Kind("anything", anything).encode((value,), {})
    while value:  # taken apart by hand: freeing it in one go is recursive too
        value = value.pop()


def test_the_size_limit_is_exact() -> None:
    kind = Kind("one", one)
    fits = "x" * (MAX_ARGUMENTS_BYTES - len('{"to":""}'))
    assert len(kind.encode((fits,), {})) == MAX_ARGUMENTS_BYTES
    with pytest.raises(InvalidError, match=r"arguments: 1,048,577 bytes of JSON are too many"):
        kind.encode((fits + "x",), {})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "arguments: input data was truncated"),
        (b"[]", "arguments: expected `object`, got `array`"),
        (b'{"to":1}', "arguments.to: expected `str`, got `int`"),
        (b"{}", "arguments: object missing required field `to`"),
        (b'{"to":"a","cc":1}', "arguments: object contains unknown field `cc`"),
        (b'{"to":"\xff"}', "arguments: holds text that is not valid Unicode"),
        (b"[" * 100_000, "arguments: expected `object`, got `array`"),
        (b'{"to":' + b"[" * 100_000, "arguments.to: expected `str`, got `array`"),
    ],
)
def test_stored_arguments_that_no_longer_fit_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        Kind("one", one).decode(data)
    assert message in str(refusal.value)


def test_deep_stored_arguments_are_refused_not_a_crash() -> None:
    with pytest.raises(InvalidError, match="nested too deeply"):
        Kind("anything", anything).decode(b'{"value":' + b"[" * 100_000)


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(_json)
def test_every_json_value_survives(value: Any) -> None:
    kind = Kind("anything", anything)
    assert kind.decode(kind.encode((value,), {})) == ((value,), {})


@given(st.recursive(st.floats() | st.integers() | st.text(st.characters()), lambda inner: st.lists(inner)))
def test_a_value_is_stored_exactly_or_refused(value: Any) -> None:
    kind = Kind("anything", anything)
    try:
        data = kind.encode((value,), {})
    except InvalidError:
        return
    assert kind.decode(data) == ((value,), {})


def _star(*values: int) -> None: ...
def _stars(**values: int) -> None: ...
def _positional(value: int, /) -> None: ...
def _path(value: Path) -> None: ...
def _nested_path(value: dict[str, list[Path]]) -> None: ...
def _union(value: int | Path | str) -> None: ...
def _object(value: object) -> None: ...
def _two(first: Context, second: Context) -> None: ...
def _yields() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_star, "kind.values: *values has no name in stored arguments; take a list instead"),
        (_stars, "kind.values: **values cannot be checked; name the parameters, or take a dict"),
        (_positional, "kind.value: value is positional-only, and arguments are stored by name; remove the '/'"),
        (_path, "kind.value: the type <class 'pathlib.Path'> has no JSON form"),
        (_nested_path, "kind.value: the type <class 'pathlib.Path'> has no JSON form"),
        (_union, "kind.value: the type"),
        (_object, "kind.value: the type <class 'object'> has no JSON form"),
        (_two, "kind.second: is a second parameter of type Context"),
        (_yields, "kind: a function that yields cannot be a job"),
        (print, "kind: expected a function made with def or async def"),
        (Path, "kind: expected a function made with def or async def"),
    ],
)
def test_a_function_that_cannot_be_a_job_is_refused(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        Kind("kind", function)
    assert message in str(refusal.value)


@pytest.mark.parametrize("name", ["", "x" * 201, "a\0b", "a\nb", "a\r\nb", "\ud800", 5, None])
def test_a_name_that_cannot_be_written_is_refused(name: Any) -> None:
    with pytest.raises(InvalidError, match=r"^kind: "):
        Kind(name, one)


def later(value: "Later") -> "Later":  # type: ignore[name-defined]  # noqa: F821
    return value


def never(value: "NotThere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


def test_annotations_may_point_forward() -> None:
    kind = Kind("later", later)
    globals_ = sys.modules[__name__].__dict__
    globals_["Later"] = Address
    try:
        assert kind.decode(kind.encode((Address("x"),), {})) == ((Address("x"),), {})
        assert kind.decode_result(b'{"street":"x"}') == Address("x")
    finally:
        del globals_["Later"]


def test_an_annotation_that_is_never_defined_is_refused_at_first_use() -> None:
    kind = Kind("never", never)
    with pytest.raises(InvalidError, match="the annotation 'NotThere' is not defined"):
        kind.encode((1,), {})


def _makes_person() -> Person:
    raise NotImplementedError


def _makes_path() -> Path:
    raise NotImplementedError


def test_results_are_read_by_the_return_annotation() -> None:
    data = b'{"name":"Ada","home":{"street":"x"}}'
    assert Kind("k", _makes_person).decode_result(data) == Person("Ada", Address("x"))
    assert Kind("k", _makes_path).decode_result(b'"/tmp"') == "/tmp"
    assert Kind("k", _makes_person).decode_result(None) is None
    with pytest.raises(InvalidError, match=r"^result: "):
        Kind("k", _makes_person).decode_result(b"1")


async def asynchronous() -> None: ...


@pytest.mark.parametrize(
    ("function", "pool", "expected"),
    [
        (one, None, "thread"),
        (asynchronous, None, "async"),
        (asynchronous, "process", "process"),
        (one, "process", "process"),
    ],
)
def test_the_pool_follows_from_the_function(function: Any, pool: str | None, expected: str) -> None:
    assert Kind("kind", function, pool=pool).pool is Pool(expected)


@pytest.mark.parametrize(
    ("function", "pool"), [(one, "async"), (asynchronous, "thread"), (one, "fork"), (lambda: None, "process")]
)
def test_a_pool_that_does_not_fit_is_refused(function: Any, pool: str) -> None:
    with pytest.raises(InvalidError):
        Kind("kind", function, pool=pool)


def test_a_closure_is_refused_for_processes() -> None:
    def closure() -> None: ...

    with pytest.raises(InvalidError, match="cannot be found from another process"):
        Kind("kind", closure, pool="process")


@pytest.mark.parametrize("errors", [("ValueError",), (1,), (ValueError(),)])
def test_exception_types_are_checked(errors: Any) -> None:
    with pytest.raises(InvalidError, match=r"^retry_on: "):
        Kind("kind", one, retry_on=errors)


def test_a_registry_refuses_two_functions_of_one_name() -> None:
    registry = Registry()
    kind = registry.add(Kind("send", send, retry_on=(ValueError,)))
    registry.add(Kind("send", send))
    with pytest.raises(InvalidError, match=r"kind: 'send' is the name of .*send already"):
        registry.add(Kind("send", one))
    assert registry.names() == {"send"}
    assert registry.get("send") is not kind
    assert registry.get("other") is None
    assert len(registry) == len(list(registry)) == 1

"""A function's parameters as a typed JSON object.

Built by `execute.registry` from a signature; `encode` runs at submit, `decode` at run. Guarantees: what `encode`
accepts, `decode` of the same function accepts; every refusal is an `InvalidError` that names the parameter, or the
path inside it. A parameter that the caller leaves out stays out, so the function's own default applies when it runs.
"""

from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter
from typing import Any, Final

import msgspec
from msgspec import inspect as types
from msgspec.structs import astuple

from mainspring.core.job import MAX_ARGUMENTS_BYTES
from mainspring.errors import InvalidError
from mainspring.execute.exact import encode, may_alter, number_problem, words

_ABSENT: Final = object()
_NUMERIC = (types.AnyType, types.IntType, types.FloatType)


class Arguments:
    """The parameters of one function, without its `Context`."""

    __slots__ = ("_decode", "_names", "_numeric", "_plain", "_positional", "_required")

    def __init__(self, function: str, parameters: list[Parameter], hints: Mapping[str, Any], *, by_name: bool) -> None:
        """`by_name`: the function is called with keywords only, because something is put in between."""
        self._names = tuple(parameter.name for parameter in parameters)
        self._positional = tuple(p.name for p in parameters if p.kind is Parameter.POSITIONAL_OR_KEYWORD)
        self._required = tuple(p.name for p in parameters if p.default is Parameter.empty)
        self._plain = not by_name and self._positional == self._required == self._names
        declared = [(p, hints.get(p.name, Any)) for p in parameters]
        found = [node for p, hint in declared for node in json_types(f"{function}.{p.name}", hint)]
        self._numeric = any(isinstance(node, _NUMERIC) for node in found)
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(_struct(function, declared)).decode

    def encode(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> bytes:
        """The JSON object of one call, validated as the function's worker will validate it."""
        # The plain call is the hot one; naming `strict` would double the cost of its line.
        fits = not kwargs and len(args) <= len(self._positional)
        values = dict(zip(self._positional, args)) if fits else self._bind(args, kwargs)  # noqa: B905
        try:
            data = encode(values)
        except Exception as error:  # a value's own code may raise anything
            raise self._unfit(values, error) from None
        if len(data) > MAX_ARGUMENTS_BYTES:
            raise InvalidError(
                "arguments", f"{len(data):,} bytes of JSON are too many: the limit is {MAX_ARGUMENTS_BYTES:,}"
            )
        try:
            self._decode(data)
        except Exception as error:
            raise self._unfit(values, error) from None
        if self._numeric and may_alter(data):
            self._refuse_numbers(values)
        return data

    def decode(self, data: bytes) -> tuple[tuple[object, ...], dict[str, object]]:
        """The call that `data` stands for: `function(*args, **kwargs)`."""
        try:
            values: tuple[object, ...] = astuple(self._decode(data))
        except Exception as error:
            raise _refusal(error) from None
        if self._plain:
            return values, {}
        pairs = zip(self._names, values, strict=True)
        return (), {name: value for name, value in pairs if value is not _ABSENT}

    def _bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        if len(args) > len(self._positional):
            expected = f"{len(self._positional)} ({', '.join(self._positional)})" if self._positional else "none"
            raise InvalidError("arguments", f"got {len(args)} positional arguments, expected at most {expected}")
        values = dict(zip(self._positional, args, strict=False))
        for name, value in kwargs.items():
            if name in values:
                raise InvalidError(f"arguments.{name}", "is given twice, by position and by name")
            if name not in self._names:
                raise InvalidError(f"arguments.{_shown(name)}", f"is not a parameter; expected {_listed(self._names)}")
            values[name] = value
        return values

    def _unfit(self, values: dict[str, object], error: Exception) -> InvalidError:
        """The error again, with the parameter named; slow, and only for calls that are refused anyway."""
        for name in self._required:
            if name not in values:
                return InvalidError(f"arguments.{name}", "is missing")
        for name, value in values.items():
            problem = _value_problem(value)
            if problem is not None:
                return InvalidError(f"arguments.{name}", problem)
        return _refusal(error)

    def _refuse_numbers(self, values: dict[str, object]) -> None:
        for name, value in values.items():
            problem = _value_problem(value)
            if problem is not None:
                raise InvalidError(f"arguments.{name}", problem)


def _struct(function: str, declared: Iterable[tuple[Parameter, Any]]) -> type[msgspec.Struct]:
    # Attributes are f0, f1, …: a parameter may have a name that a class cannot give to an attribute.
    fields: list[tuple[str, Any, Any]] = []
    for index, (parameter, hint) in enumerate(declared):
        if parameter.default is Parameter.empty:
            field = msgspec.field(name=parameter.name)
        else:
            field = msgspec.field(name=parameter.name, default=_ABSENT)
        fields.append((f"f{index}", hint, field))
    return msgspec.defstruct(function, fields, kw_only=True, forbid_unknown_fields=True)


def json_types(field: str, hint: Any) -> list[types.Type]:
    """Every type inside an annotation; InvalidError for `field` if one of them has no JSON form."""
    try:
        stack: list[object] = [types.type_info(hint)]
    except Exception as error:
        raise InvalidError(field, f"the type {hint!r} has no JSON form: {words(error)}") from None
    found: dict[int, types.Type] = {}
    while stack:
        node = stack.pop()
        if isinstance(node, list | tuple):
            stack.extend(node)
        elif isinstance(node, types.Type | types.Field) and id(node) not in found:
            if isinstance(node, types.CustomType):
                raise InvalidError(
                    field, f"the type {node.cls!r} has no JSON form; use plain types, a dataclass or a Struct"
                )
            if isinstance(node, types.Type):
                found[id(node)] = node
            stack.extend(getattr(node, name) for name in node.__struct_fields__)
    return list(found.values())


def _value_problem(value: object) -> str | None:
    try:
        encode(value)
        return number_problem(value)
    except Exception as error:
        return words(error)


def _refusal(error: Exception) -> InvalidError:
    """msgspec says: Expected `str`, got `int` - at `$.to[0]`."""
    problem, _, path = words(error).partition(" - at `$")
    return InvalidError("arguments" + path.rstrip("`"), problem)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) if names else "none"


def _shown(name: object) -> str:
    return ascii(name)[1:-1] if isinstance(name, str) else repr(name)

"""Classes whose fields are declared by annotations, cheap to define: `Record` and `NamedTuple`.

A record is a frozen dataclass, also for the type checker. `NamedTuple` is that of `typing`, for
values that are unpacked, sorted, or keys. The standard library compiles methods for each class, 0.5
and 0.1 ms a class, and a short report has about three hundred. Here all classes share their
methods. Importing `dataclasses` and `typing` would double the time before COMMAND starts.
"""

from __future__ import annotations

__all__ = [
    "NamedTuple",
    "Record",
    "asdict",
    "dataclass_transform",
    "field",
    "field_names",
    "nested_asdict",
    "project",
    "replace",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from dataclasses import replace
    from typing import Any, ClassVar, NamedTuple, Self, TypeVar, dataclass_transform

    _Value = TypeVar("_Value")
    _Kind = TypeVar("_Kind", bound="Record")
else:
    from _collections import _tuplegetter  # what named tuples of `collections` are made of

    def dataclass_transform(**_: object) -> Callable[[type], type]:
        """Stand in for the decorator, which only a type checker reads."""
        return lambda record: record

    def replace(record: Record, **changes: Any) -> Record:
        """Return a copy of a record with some fields changed.

        Raises:
            TypeError: it has no field of such a name.
        """
        return type(record)(**{**asdict(record), **changes})

    class _NamedTupleType(type):
        def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            fields = dict(getattr(bases[0], "__record_fields__", ()))
            for one in body.get("__annotations__", ()):
                fields[one] = body.get(one, _REQUIRED)
                body[one] = _tuplegetter(len(fields) - 1, "")
            body |= {"__record_fields__": fields, "_fields": tuple(fields)}
            return type.__new__(mcs, name, bases, {"__slots__": (), **body})

        @property
        def _field_defaults(cls) -> dict[str, Any]:
            fields = cls.__record_fields__.items()
            return {name: default for name, default in fields if default is not _REQUIRED}

    class NamedTuple(tuple, metaclass=_NamedTupleType):
        """A tuple whose places have names, as `typing.NamedTuple`."""

        __slots__ = ()

        def __new__(cls, /, *values: Any, **named: Any) -> Self:
            """Make a tuple from values by place, by name, or both; other fields have defaults."""
            if len(values) != len(cls._fields):
                state = dict(zip(cls._fields, values, strict=False), **named)
                _complete(cls, len(values), state, named)
                values = [state[name] for name in cls._fields]
            elif named:
                _complete(cls, len(values), dict(zip(cls._fields, values, strict=True)), named)
            return tuple.__new__(cls, values)

        @classmethod
        def _make(cls, values: Iterable[Any]) -> Self:
            return cls(*values)

        def _replace(self, /, **changes: Any) -> Self:
            fields = self._asdict()
            if not changes.keys() <= fields.keys():
                _complete(type(self), len(fields), fields, changes)
            return tuple.__new__(type(self), (fields | changes).values())

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

        def __repr__(self) -> str:
            return _shown(self, self._asdict())


_REQUIRED = object()


class _MadeAnew:
    def __init__(self, factory: Callable[[], Any]) -> None:
        self.factory = factory


def field(*, default_factory: Callable[[], _Value]) -> _Value:
    """Declare a field whose default is made for each record."""
    return _MadeAnew(default_factory)  # type: ignore[return-value]  # as the class's attribute


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Record:
    """A class whose annotated names are its fields and the arguments that make it.

    Records are equal if they are of one class and their fields are equal. With ``frozen=False`` in
    a class's bases, its fields can be set, and it has no hash. With ``eq=False`` each record is
    equal to itself only, as fields that are arrays require.
    """

    __record_fields__: ClassVar[dict[str, Any]] = {}  # name: default, a _MadeAnew, or _REQUIRED

    def __init_subclass__(cls, *, frozen: bool = True, eq: bool = True) -> None:
        fields: dict[str, Any] = {}
        for base in reversed(cls.__bases__):
            fields |= getattr(base, "__record_fields__", {})
        own = cls.__dict__
        for name, annotation in cls.__annotations__.items():
            if "ClassVar[" not in str(annotation):
                fields[name] = own.get(name, _REQUIRED)
        cls.__record_fields__ = fields
        methods: dict[str, Any] = {}
        if not frozen:
            methods = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
        if not eq:
            methods |= {"__eq__": object.__eq__, "__hash__": object.__hash__}
        elif not frozen:
            methods["__hash__"] = None
        for name, method in methods.items():
            setattr(cls, name, method)

    def __init__(self, /, *values: Any, **named: Any) -> None:
        fields = self.__record_fields__
        state = self.__dict__
        state.update(zip(fields, values, strict=False), **named)
        if len(values) + len(named) != len(fields) or state.keys() != fields.keys():
            _complete(type(self), len(values), state, named)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: '{name}' cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: '{name}' cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash(_values(self))

    def __repr__(self) -> str:
        return _shown(self, asdict(self))


def _values(record: Any) -> tuple[Any, ...]:
    state = record.__dict__
    return tuple([state[name] for name in record.__record_fields__])


def _shown(one: object, fields: dict[str, Any]) -> str:
    shown = ", ".join(f"{name}={value!r}" for name, value in fields.items())
    return f"{type(one).__qualname__}({shown})"


def _complete(made: Any, given: int, state: dict[str, Any], named: dict[str, Any]) -> None:
    """Add the defaults of the fields that got no value.

    Args:
        made: the class of the new instance.
        given: the number of positional values.
        state: all values, by the fields' names.
        named: the values that were given by name.

    Raises:
        TypeError: there are too many or too few values, one twice, or one of no field.
    """
    fields, kind = made.__record_fields__, made.__name__
    if given > len(fields):
        raise TypeError(f"{kind} has {len(fields)} fields, and was given {given} values")
    for name in named:
        if name not in fields:
            raise TypeError(f"{kind} has no field '{name}'")
        if name in tuple(fields)[:given]:
            raise TypeError(f"{kind} was given '{name}' twice")
    for name, default in fields.items():
        if name not in state:
            if default is _REQUIRED:
                raise TypeError(f"{kind} needs '{name}'")
            state[name] = default.factory() if isinstance(default, _MadeAnew) else default


def field_names(record: Record | type[Record]) -> tuple[str, ...]:
    """Return the names of a record's fields, in the order of their declaration."""
    return tuple(record.__record_fields__)


def asdict(record: Record) -> dict[str, Any]:
    """Return a record's fields by name, in the order of their declaration."""
    state = record.__dict__
    return {name: state[name] for name in record.__record_fields__}


def project(record: Record, kind: type[_Kind]) -> _Kind:
    """Return the fields that a record has from a base class, as a record of this class."""
    return kind(**{name: record.__dict__[name] for name in kind.__record_fields__})


def nested_asdict(record: Record) -> dict[str, Any]:
    """Return a record's fields by name; fields that are records become dictionaries too."""
    return {
        name: nested_asdict(value) if isinstance(value, Record) else value
        for name, value in asdict(record).items()
    }

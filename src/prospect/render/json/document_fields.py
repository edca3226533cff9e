"""JSON documents as lists of fields: their values, how they are written, and their meaning.

An `Object` lists the fields of a JSON object by name. A `Field` has the kind of its value, its
meaning, and the way from the program's value to the document's. `scripts/schemas.py` makes the JSON
Schemas and the tables of fields in docs/ from the same lists.
"""

from __future__ import annotations

import json
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

from prospect.records import NamedTuple, Record, replace
from prospect.render.encoding import encoded, listed, rounded
from prospect.version import generator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from prospect.columns.array_types import Ints

    Get = str | int | Callable[[Any], Any]

ABSENT = object()  # the value of an optional field that is left out
NO_ROWS = ()  # a table without rows


class _Value:
    of_array: Callable[[list[Any]], list[Any]] | None = None

    def __call__(self, about: str = "", get: Get = "", *, optional: bool = False) -> Field:
        """Return a field with such values; see `Field`."""
        return Field(self, about, get, optional=optional)


class Kind(_Value, Record):
    """Values that a field may have.

    Attributes:
        schema: for a validator.
        convert: makes the document's value of the program's; None if they are the same.
        of_array: the same for the list of a whole array: numbers of Python's types, none missing.
    """

    schema: dict[str, Any]
    convert: Callable[[Any], Any] | None = None
    of_array: Callable[[list[Any]], list[Any]] | None = None
    in_pieces: ClassVar[bool] = False

    @property
    def or_null(self) -> Kind:
        """The same, or null: for None, and for numbers that are not finite."""
        schema, convert = self.schema, self.convert
        types = (
            {"type": [schema["type"], "null"]}
            if "type" in schema
            else {"enum": [*schema["enum"], None]}
        )
        known = convert and (lambda value: None if value is None else convert(value))
        return Kind(schema | types, known, self.of_array)

    def within(self, minimum: float, maximum: float | None = None) -> Kind:
        """Return the same with bounds."""
        bounds = {"minimum": minimum} | ({} if maximum is None else {"maximum": maximum})
        return replace(self, schema=self.schema | bounds)


def itself(source: Any) -> Any:
    """Return the source: the getter of an object or array with the same source."""
    return source


TEXT = Kind({"type": "string"})
NAME = Kind({"type": ["string", "null"]}, lambda text: text or None)  # "" is null
FLAG = Kind({"type": "boolean"}, bool, itself)
INTEGER = Kind({"type": "integer"}, int, itself)
COUNT = INTEGER.within(0)
INDEX = Kind({"type": ["integer", "null"]}, lambda row: int(row) if row >= 0 else None).within(0)
NUMBER = Kind({"type": "number"})  # null if it is not finite
AMOUNT = NUMBER.within(0)
SHARE = NUMBER.within(0, 1)
SUMMED_SHARE = NUMBER.within(0, 1.000001)  # rounding of a sum
# A time, to the nanosecond.
ROUNDED = Kind({"type": "number"}, rounded, lambda values: [round(value, 9) for value in values])
SECONDS = ROUNDED.within(0)


def one_of(words: Iterable[str]) -> Kind:
    """Return the kind of a few words."""
    return Kind({"enum": list(words)})


def numbered(words: Sequence[str] | dict[int, str]) -> Kind:
    """Return the kind of a few words that the program has as numbers."""
    every = words.values() if isinstance(words, dict) else words
    return Kind({"enum": list(every)}, words.__getitem__)


class Rows(_Value, Record):
    """A JSON array.

    Attributes:
        of: kind of its elements.
        by_column: the source is one table: the getters of the elements' fields return columns.
        in_pieces: the array is long: it is written an element at a time, each on its own line.
        before, after: line ends before the array's name, instead of the object's separator, and
            before its end.
        is_nullable: the array is null for None.
    """

    of: Kind | Object | Rows
    by_column: bool = False
    in_pieces: bool = False
    before: bytes = b""
    after: bytes = b""
    is_nullable: bool = False

    @property
    def or_null(self) -> Rows:
        """The same, or null for None."""
        return replace(self, is_nullable=True)

    def elements(self, source: Any) -> Iterable[Any]:
        """Return the elements as JSON has them."""
        if source is NO_ROWS:
            return source
        if self.by_column:
            return self.of.rows(source)  # type: ignore[union-attr]  # of tables
        return source if self.of.convert is None else map(self.of.convert, source)

    def convert(self, source: Any) -> list[Any] | None:
        """Return the array."""
        return None if source is None and self.is_nullable else list(self.elements(source))

    def written(self, source: Any) -> Iterator[bytes]:
        """Yield the array in pieces."""
        yield b"["
        if isinstance(self.of, Object) and self.of.in_pieces:
            for number, one in enumerate(source):
                yield b",\n" if number else b"\n"
                yield from self.of.written(one)
        else:
            yield from listed(self.elements(source))
        yield self.after + b"]"


class Named(_Value, Record):
    """A JSON object whose fields are all of one kind: the rows of a table, each with its name."""

    names: tuple[str, ...]
    of: Object
    about: str
    in_pieces: ClassVar[bool] = False

    def convert(self, table: Any) -> dict[str, Any]:
        """Return the object."""
        return dict(zip(self.names, self.of.rows(table), strict=True))


class Columns(Record):
    """Fields whose names are data: a column of each, with its name.

    Attributes:
        of: kind of their values.
        about: their meaning.
    """

    of: Kind
    about: str

    def columns(self, columns: dict[str, Iterable[Any]]) -> dict[str, Iterable[Any]]:
        """Return the columns as they are."""
        return columns

    def convert(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values as they are."""
        return values


class Mapping(_Value, Record):
    """A JSON object whose keys are data, such as names of counters.

    Attributes:
        of: kind of its values.
        required: keys that are always there.
    """

    of: Kind
    required: tuple[str, ...] = ()
    convert: ClassVar[None] = None
    in_pieces: ClassVar[bool] = False


class Field(NamedTuple):
    """A field of a JSON object; the call of a kind of values makes it.

    Attributes:
        about: its meaning; "" if the field before it describes both.
        get: an attribute of the source (with dots: of its attribute), an element of it, or a
            function of it; the attribute of the field's name by default.
        optional: the field may be left out: `get` returns ABSENT.
    """

    kind: Any
    about: str
    get: Get
    optional: bool


class Part(NamedTuple):
    """All fields of another object in one place of an object; `get` as of a field."""

    kind: Object | Named | Columns
    get: Get = ""


class Object(_Value):
    """A JSON object.

    Attributes:
        name: of the schema's definition and of the table in docs/; "" if the object is described
            with the field that has it.
        between: follows the comma between fields of an object that is written in pieces, because
            it has long arrays; b"" for objects that are encoded whole.
        fields: by name, in their order, with parts.
        is_nullable: the object is null for None.
    """

    before: ClassVar[bytes] = b""

    def __init__(self, name: str, between: bytes = b"", /, **fields: Field | Part) -> None:
        self.name, self.between, self.fields = name, between, fields
        self.in_pieces, self.is_nullable = bool(between), False
        self._getters: list[tuple[str | None, Callable[[Any], Any], Any, Any]] = []
        for key, one in fields.items():
            get = _getter(key if one.get == "" else one.get)
            own_name = key if isinstance(one, Field) else None
            self._getters.append((own_name, get, one.kind.convert, one.kind))

    @property
    def or_null(self) -> Object:
        """The same, or null for None."""
        found = Object(self.name, self.between, **self.fields)
        found.is_nullable = True
        return found

    def convert(self, source: Any) -> dict[str, Any] | None:
        """Return the object."""
        if source is None and self.is_nullable:
            return None
        found: dict[str, Any] = {}
        for name, get, convert, _ in self._getters:
            value = get(source)
            if value is ABSENT:
                continue
            if convert is not None:
                value = convert(value)
            if name is None:
                found |= value
            else:
                found[name] = value
        return found

    def rows(self, table: Any) -> Iterator[dict[str, Any]]:
        """Yield the object of each row of a table; the getters return its columns."""
        columns = self.columns(table)
        for row in zip(*columns.values(), strict=True):
            yield dict(zip(columns, row, strict=True))

    def columns(self, table: Any) -> dict[str, Iterable[Any]]:
        """Return the values of each field for all rows of a table."""
        found: dict[str, Iterable[Any]] = {}
        for name, get, convert, kind in self._getters:
            column = get(table)
            if name is None:
                found |= kind.columns(column)
                continue
            is_array = hasattr(column, "tolist")
            if is_array:
                column = column.tolist()
            if is_array and kind.of_array is not None:
                found[name] = kind.of_array(column)
            else:
                found[name] = column if convert is None else map(convert, column)
        return found

    def written(self, source: Any) -> Iterator[bytes]:
        """Yield the object in pieces: each long array, and the fields before it."""
        comma, members = b"{", dict[str, Any]()
        for name, get, convert, kind in self._getters:
            value = get(source)
            if value is ABSENT:
                continue
            if name is not None and kind.in_pieces:
                if members:
                    yield comma + encoded(members)[1:-1]
                    comma, members = b"," + self.between, {}
                yield (b"," + kind.before if kind.before else comma) + encoded(name) + b": "
                yield from kind.written(value)
                comma = b"," + self.between
                continue
            if convert is not None:
                value = convert(value)
            members |= value if name is None else {name: value}
            if self.between == b"\n":
                for key, item in members.items():
                    yield comma + encoded(key) + b": " + encoded(item)
                    comma = b",\n"
                members = {}
        if members:
            yield comma + encoded(members)[1:-1]
        yield b"}"


def _getter(get: Get) -> Callable[[Any], Any]:
    if isinstance(get, str):
        return attrgetter(get)
    return itemgetter(get) if isinstance(get, int) else get


TEXTS = Rows(TEXT)


def each(**fields: Field | Part) -> Rows:
    """Return an array of objects."""
    return Rows(Object("", **fields))


def each_row(**fields: Field | Part) -> Rows:
    """Return an array of objects, one a row of a table; getters return its columns."""
    return Rows(Object("", **fields), by_column=True)


def schema(name: str) -> Field:
    """Return the field with the document's name and version."""
    return Kind({"const": name})(f"`{name}`", lambda _: name)


GENERATOR = TEXT("program and version that wrote the document", lambda _: generator())


def shown(name: str) -> Callable[[Any], Any]:
    """Return a getter of a column of a source's `table`, of the rows that are shown."""
    return lambda source: getattr(source.table, name)[: source.table.shown]


def cut(noun: str, row: Object) -> dict[str, Field]:
    """Return the fields of a `CutRows`, in a source's `table`, whose rows are of the source."""
    skipped = {
        noun: COUNT(get=lambda table: len(table) - table.shown),
        "samples": COUNT(get="skipped_hits"),
        "seconds": SECONDS(get="skipped_seconds"),
    }
    return {
        "samples": COUNT("of all its rows, listed or not", "table.total_hits"),
        "seconds": SECONDS(get="table.total_seconds"),
        "rows": Rows(row, by_column=True)(
            "largest first", lambda source: source if source.table.shown else NO_ROWS
        ),
        "skipped": Object("", **skipped)(
            f"how many {noun} are not listed, and what these have", "table"
        ),
    }


def gather(column: Any, rows: Ints) -> Any:
    """Return some rows of a column: an array or a list."""
    if hasattr(column, "take"):
        return column.take(rows)
    return [column[row] for row in rows.tolist()]


def present(value: Any) -> Any:
    """Return a value, ABSENT for None."""
    return ABSENT if value is None else value


def indented(of: Object, source: Any) -> str:
    """Return a short document, a line for each value."""
    return json.dumps(of.convert(source), indent=1) + "\n"


def document(of: Object, source: Any) -> Iterator[bytes]:
    """Yield a whole document in pieces."""
    if of.in_pieces:
        yield from of.written(source)
    else:
        yield encoded(of.convert(source))
    yield b"\n"

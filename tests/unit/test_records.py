"""Records: as frozen dataclasses are, and cheaper to define."""

import copy
import pickle
from typing import ClassVar, Generic, TypeVar

import numpy as np
import pytest

from prospect.records import (
    NamedTuple,
    Record,
    asdict,
    field,
    field_names,
    nested_asdict,
    replace,
)


class Point(Record):
    kind: ClassVar[str] = "point"

    x: int
    y: int = 2
    notes: list[str] = field(default_factory=list)


class Named(Point):
    name: str = ""


class Counter(Record, frozen=False):
    count: int = 0


class Column(Record, eq=False):
    values: np.ndarray


class Pair(Record):
    first: Point
    second: int


def test_fields_are_given_by_place_or_by_name_or_have_a_default():
    assert asdict(Point(1)) == {"x": 1, "y": 2, "notes": []}
    assert asdict(Point(1, notes=["a"], y=3)) == {"x": 1, "y": 3, "notes": ["a"]}
    assert Point(1, 2, ["a"]).notes == ["a"]
    assert Named(5, name="n") == Named(5, 2, [], "n")
    assert field_names(Named) == ("x", "y", "notes", "name")


def test_a_default_that_is_made_is_made_for_each():
    assert Point(1).notes is not Point(1).notes


@pytest.mark.parametrize(
    ("values", "named", "says"),
    [
        ((), {}, "Point needs 'x'"),
        ((), {"y": 1}, "Point needs 'x'"),
        ((1, 2, [], 4), {}, "Point has 3 fields, and was given 4 values"),
        ((1, 2), {"z": 4}, "Point has no field 'z'"),
        ((1,), {"z": 4, "y": 2}, "Point has no field 'z'"),
        ((1, 2), {"x": 4}, "Point was given 'x' twice"),
        ((1,), {"x": 4, "y": 2, "notes": []}, "Point was given 'x' twice"),
    ],
)
def test_what_does_not_fit_is_refused(values, named, says):
    with pytest.raises(TypeError, match=says):
        Point(*values, **named)


def test_records_are_frozen_unless_said():
    point = Point(1)
    with pytest.raises(AttributeError, match="Point is frozen: 'x' cannot be set"):
        point.x = 2
    with pytest.raises(AttributeError, match="Point is frozen: 'x' cannot be deleted"):
        del point.x
    counter = Counter()
    counter.count += 1
    assert counter == Counter(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(counter)


def test_records_of_one_class_are_equal_by_their_fields():
    assert Point(1) == Point(1)
    assert Point(1) != Point(2)
    assert Point(1) != Named(1)
    assert hash(Pair(1, 2)) == hash(Pair(1, 2))
    assert Pair(1, 2) != (1, 2)


def test_where_fields_are_arrays_a_record_can_be_equal_to_itself_only():
    column = Column(np.arange(2))
    assert column == column  # noqa: PLR0124 - the very thing asked
    assert column != Column(column.values)
    assert len({column, Column(column.values)}) == 2


def test_replacing_makes_another_record():
    point = Point(1, notes=["a"])
    assert replace(point, y=7) == Point(1, 7, ["a"])
    assert point.y == 2
    assert type(replace(Named(1), name="b")) is Named
    with pytest.raises(TypeError, match="no field 'z'"):
        replace(point, z=1)


def test_records_are_copied_pickled_and_shown():
    point = Point(1)
    assert pickle.loads(pickle.dumps(point)) == copy.copy(point) == point
    assert repr(point) == "Point(x=1, y=2, notes=[])"
    assert nested_asdict(Pair(point, 3)) == {"first": asdict(point), "second": 3}


class Span(NamedTuple):
    begin: int
    end: int = 9

    @property
    def length(self) -> int:
        return self.end - self.begin


class Wide(Span):
    pass


Key = TypeVar("Key")


class Cost(NamedTuple, Generic[Key]):
    key: Key
    count: int


def test_a_named_tuple_is_a_tuple():
    span = Span(1, end=3)
    begin, end = span
    assert (begin, end) == span == (1, 3)
    assert (span.begin, span.end, span.length) == (1, 3, 2)
    assert Span(1) < Span(1, 10)
    assert {span: "a"}[(1, 3)] == "a"
    assert Cost("a", 2).count == 2


def test_a_named_tuple_has_what_those_of_the_standard_library_have():
    span = Span(1)
    assert span._replace(begin=2) == Span(2, 9)
    assert span._asdict() == {"begin": 1, "end": 9}
    assert Span._fields == Wide._fields == ("begin", "end")
    assert Span._field_defaults == {"end": 9}
    assert type(Wide._make((1, 2))) is Wide
    assert pickle.loads(pickle.dumps(span)) == copy.copy(span) == span
    assert repr(span) == "Span(begin=1, end=9)"
    with pytest.raises(AttributeError):
        span.begin = 2
    with pytest.raises(AttributeError):
        span.other = 2


@pytest.mark.parametrize(
    ("values", "named", "says"),
    [
        ((), {}, "Span needs 'begin'"),
        ((1, 2, 3), {}, "Span has 2 fields, and was given 3 values"),
        ((1,), {"other": 3}, "Span has no field 'other'"),
        ((1, 2), {"end": 3}, "Span was given 'end' twice"),
        ((1,), {"begin": 3}, "Span was given 'begin' twice"),
    ],
)
def test_what_does_not_fit_a_named_tuple_is_refused(values, named, says):
    with pytest.raises(TypeError, match=says):
        Span(*values, **named)

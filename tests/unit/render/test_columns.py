from hypothesis import given
from hypothesis import strategies as st

from prospect.render.escape import display_width, escaped
from prospect.render.text.text_table import Column, columns_of, table_lines

CELL = st.text(max_size=30).map(escaped).map(str.strip)


def test_numbers_stand_right_and_names_left():
    columns = (
        Column("N", ["1", "100"]),
        Column("Name", ["a", "bcdefg"], right=False),
        Column("Path", ["/x", "/y"], right=False),
    )
    assert list(table_lines(*columns)) == [
        "  N  Name    Path",
        "  1  a       /x",
        "100  bcdefg  /y",
    ]


def test_a_table_without_rows_is_its_titles():
    assert list(table_lines(Column("A", []), Column("B", []))) == ["A  B"]


@given(st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=8))
def test_columns_line_up_at_any_width_of_name(rows):
    first, second, third = (list(column) for column in zip(*rows, strict=True))
    columns = (
        Column("A", first, right=False),
        Column("B", second),
        Column("C", third, right=False),
    )
    _, *lines = table_lines(*columns)
    width = max(display_width(text) for text in ("A", *first))
    width_b = max(display_width(text) for text in ("B", *second))
    for (_, b, c), line in zip(rows, lines, strict=True):
        if c:
            assert line.endswith(c)
            assert display_width(line.removesuffix(c)) == width + 2 + width_b + 2
        if b:
            upto = line[: len(line) - len(c)].rstrip() if c else line
            assert display_width(upto) == width + 2 + width_b
    assert len(lines) == len(rows)


def test_a_column_that_is_not_wanted_is_not_shown():
    columns = (Column("A", ["1"]), Column("B", ["2"], when=False), Column("C", ["3"], right=False))
    assert list(table_lines(*columns)) == ["A  C", "1  3"]


def test_cells_by_row_become_columns_numbers_first():
    rows = [("1", "2", "a"), ("10", "20", "b")]
    assert list(table_lines(*columns_of(rows, ("N", "M"), ("Name",)))) == [
        " N   M  Name",
        " 1   2  a",
        "10  20  b",
    ]
    assert list(table_lines(*columns_of([], ("N", "M"), ("Name",)))) == ["N  M  Name"]

from hypothesis import given
from hypothesis import strategies as st

from prospect.render.escape import display_width, escaped
from prospect.render.text.columns import Column, table_lines
from prospect.render.text.listing import in_columns

CELL = st.text(max_size=30).map(escaped).map(str.strip)


def test_numbers_stand_right_and_names_left():
    columns = (Column("N"), Column("Name", right=False), Column("Path", right=False))
    assert list(table_lines(columns, [["1", "100"], ["a", "bcdefg"], ["/x", "/y"]])) == [
        "  N  Name    Path",
        "  1  a       /x",
        "100  bcdefg  /y",
    ]


def test_a_table_without_rows_is_its_titles():
    assert list(table_lines((Column("A"), Column("B")), [[], []])) == ["A  B"]


@given(st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=8))
def test_columns_line_up_at_any_width_of_name(rows):
    first, second, third = (list(column) for column in zip(*rows, strict=True))
    columns = (Column("A", right=False), Column("B"), Column("C", right=False))
    _, *lines = table_lines(columns, [first, second, third])
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


def test_instructions_of_which_none_has_a_hit_have_titles_and_no_cells():
    assert in_columns({"Hits": [], "Pcnt": []}, []) == ("Hits  Pcnt", [])

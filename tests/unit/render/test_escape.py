import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prospect.render.encoding import encoded
from prospect.render.escape import display_width, escaped, for_terminal, padded, shortened

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=40)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain name", "plain name"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\nb\tc\r", "a\\x0ab\\x09c\\x0d"),
        ("\x7f\x9b", "\\x7f\\x9b"),
        ("\u202eevil", "\\u202eevil"),
        ("a\u2028b", "a\\u2028b"),
        ("\udcff", "\\xff"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
        ("日本", "日本"),
    ],
)
def test_what_a_terminal_acts_on_is_written_out(name, shown):
    assert escaped(name) == shown


@given(ANY_TEXT)
def test_anything_becomes_one_printable_line_that_utf8_can_hold(text):
    shown = escaped(text)
    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1
    shown.encode("utf-8")


def test_width_counts_columns_not_characters():
    assert display_width("abc") == 3
    assert display_width("日本") == 4
    assert display_width("e\u0301") == 1


@given(ANY_TEXT, st.integers(3, 30))
def test_shortened_text_fits(text, width):
    shown = escaped(text)
    short = shortened(shown, width)
    assert display_width(short) <= width
    assert short == shown or short.endswith("...")


@given(ANY_TEXT, st.booleans())
def test_padded_text_has_the_width(text, right):
    shown = escaped(text)
    width = display_width(shown) + 5
    assert display_width(padded(shown, width, right=right)) == width


def test_a_report_keeps_its_colours_on_a_terminal_and_nothing_else():
    report = '\x1b[1mtitle\x1b[0m\n"\x1b]0;gotcha\x07","\u202eevil","é"\tx\r\n'
    shown = for_terminal(report.encode() + b"\xff\x9b").decode()
    assert shown == (
        '\x1b[1mtitle\x1b[0m\n"\\x1b]0;gotcha\\x07","\\u202eevil","é"\tx\\x0d\n\\xff\\x9b'
    )


def test_a_name_has_no_colours_in_a_report_without_any():
    report = '"\x1b[8mhidden\x1b[0m","\x1b[2J"\n'
    shown = for_terminal(report.encode(), has_colours=False).decode()
    assert shown == '"\\x1b[8mhidden\\x1b[0m","\\x1b[2J"\n'


@given(ANY_TEXT)
def test_json_on_a_terminal_says_the_same_and_nothing_that_a_terminal_obeys(text):
    value = {"name": text + "\x9b\x7f\u202e\U000e0001\udcff\x1b[1m"}
    shown = for_terminal(encoded(value), is_json=True).decode()
    assert shown.isprintable()
    assert json.loads(shown) == value

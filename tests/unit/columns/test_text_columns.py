import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prospect.columns.text_columns import hexadecimal, line_bounds, next_spaces, padded


def fields(text: bytes) -> tuple[list[int], list[bool]]:
    """Read each line of a text as one number."""
    buffer = padded(text)
    values, valid = hexadecimal(buffer, *line_bounds(buffer))
    return values.tolist(), valid.tolist()


@given(
    st.lists(st.integers(0, 2**64 - 1), min_size=1), st.sampled_from(["%x", "%X", "0x%x", "%016x"])
)
def test_every_64_bit_number_is_read(numbers: list[int], form: str) -> None:
    values, valid = fields("".join(form % number + "\n" for number in numbers).encode())
    assert values == numbers
    assert all(valid)


@given(st.lists(st.binary(max_size=20).filter(lambda field: b"\n" not in field), max_size=8))
def test_a_field_is_a_number_exactly_if_all_its_bytes_are_digits(lines: list[bytes]) -> None:
    _, valid = fields(b"".join(line + b"\n" for line in lines))
    digits = [line[2:] if line[:2] in {b"0x", b"0X"} else line for line in lines]
    allowed = set(b"0123456789abcdefABCDEF")
    assert valid == [1 <= len(one) <= 16 and set(one) <= allowed for one in digits]


def test_the_last_line_needs_no_newline() -> None:
    assert fields(b"a\nb") == ([10, 11], [True, True])


def test_an_empty_text_has_no_lines() -> None:
    assert fields(b"") == ([], [])


def test_spaces_are_found_in_order_and_missing_ones_lie_beyond_the_text() -> None:
    text = padded(b"a b c d")
    first, second = next_spaces(text, np.array([16, 20, 22]), 2)
    assert first.tolist() == [17, 21, len(text)]
    assert second.tolist() == [19, len(text), len(text)]

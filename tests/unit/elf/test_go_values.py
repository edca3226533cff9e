"""Lists of values by address, next to a reader that takes a byte at a time."""

import random

import numpy as np
import pytest

from builders.go_table import packed_values
from prospect.elf import go_table
from prospect.elf.go_table import GoValues


def plain(content, at, distance, quantum):
    """Read one list as pcvalue() does."""
    value, end, position = -1, 0, at
    while position < len(content):
        numbers = []
        for _ in range(2):
            number = shift = 0
            while True:
                octet = content[position]
                position += 1
                number |= (octet & 0x7F) << shift
                shift += 7
                if octet < 0x80:
                    break
            numbers.append(number)
            if len(numbers) == 1 and not number and end:
                return -1
        value += numbers[0] >> 1 ^ -(numbers[0] & 1)
        end += numbers[1] * quantum
        if distance < end:
            return value
    return -1


@pytest.mark.parametrize("quantum", [1, 4])
def test_values_are_those_of_a_plain_reader(quantum):
    chance = random.Random(quantum)
    content, starts, sizes = bytearray(1), [], []
    for _ in range(60):
        pairs = [
            (
                chance.choice((-1, 0, 8, 70, 300, -40000)),
                chance.choice((1, 3, 200, 70000)) * quantum,
            )
            for _ in range(chance.randint(1, 9))
        ]
        pairs = [one for k, one in enumerate(pairs) if not k or one[0] != pairs[k - 1][0]]
        starts.append(len(content))
        sizes.append(sum(size for _, size in pairs))
        content += packed_values(pairs, quantum)
    values = GoValues(np.frombuffer(bytes(content), np.uint8), quantum)
    lists = np.array([chance.choice(starts) for _ in range(2000)])
    distance = np.array([chance.randrange(sizes[starts.index(at)] + 9) for at in lists.tolist()])
    found = values.unpacked(lists).at(lists, distance).tolist()
    assert found == [
        plain(content, at, one, quantum)
        for at, one in zip(lists.tolist(), distance.tolist(), strict=True)
    ]
    assert len(set(found)) > 4


def test_no_list_and_addresses_before_a_function_have_no_value():
    values = GoValues(np.frombuffer(b"\0" + packed_values([(5, 10)]), np.uint8), 1)
    lists = np.array([0, 1, 1, 1, 99])
    found = values.unpacked(lists).at(lists, np.array([3, 3, 10, -1, 0]))
    assert found.tolist() == [-1, 5, -1, -1, -1]


def test_unpacked_lists_say_where_each_value_begins():
    content = b"\0" + packed_values([(0, 4), (8, 6)]) + packed_values([(16, 9)])
    values = GoValues(np.frombuffer(content, np.uint8), 1)
    unpacked = values.unpacked(np.array([1, 6]))
    assert unpacked.row.tolist() == [0, 0, 1]
    assert unpacked.start.tolist() == [0, 4, 0]
    assert unpacked.stop.tolist() == [4, 10, 9]


def test_lists_without_an_end_cost_no_more_than_their_bytes_once(monkeypatch):
    monkeypatch.setattr(go_table, "MOST_LIST_BYTES", 1000)
    values = GoValues(np.full(5000, 1, np.uint8), 1)
    unpacked = values.unpacked(np.arange(1, 5000, 2))
    assert len(unpacked.value) <= 500
    assert GoValues(np.full(5000, 0x80, np.uint8), 1).unpacked(np.array([1])).value.size == 0

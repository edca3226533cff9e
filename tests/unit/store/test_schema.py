"""The head of a segment is read as it was written, or is damaged."""

from __future__ import annotations

import base64
import json
import zlib

import pytest

from builders.stored import window_at
from prospect.errors import StoreError
from prospect.records import replace
from prospect.store.file_schema import read_head, written_head

HUGE = "1" + "0" * 400


def text_of(head):
    return zlib.decompress(base64.b64decode(written_head(head))).decode()


def as_written(text):
    return base64.b64encode(zlib.compress(text.encode()))


def test_a_head_is_read_as_it_was_written():
    head = window_at(0, separate=("cpu",)).head
    run = {**head.run, "hostname": "caf\udce9", "recorder_command_line": ("\udcff", "é")}
    event = replace(head.events[0], sample_period=2**64 - 1, unit_mask=3, weighs_periods=True)
    head = replace(head, run=run, events=(event,), host_share=0.25)
    assert read_head(written_head(head).encode()) == head


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("window_us", "Infinity"),
        ("window_us", "-1"),
        ("window_us", HUGE),
        ("cpus", "Infinity"),
        ("cpus", "NaN"),
        ("cpus", HUGE),
        ("cpus", str(2**31)),
        ("cpu_mhz", HUGE),
        ("cpu_mhz", "Infinity"),
        ("seconds_per_period", HUGE),
        ("seconds_per_period", "NaN"),
        ("seconds_per_hit", "null"),
        ("frequency_hz", '"many"'),
        ("clocks", "Infinity"),
        ("sample_period", HUGE),
        ("name", "7"),
        ("arch", r'"\ud800"'),
        ("hostname", "[" * 50_000),
        ("hostname", "[]"),
        ("limits", "[null]"),
        ("host_share", "NaN"),
        ("events", "[]"),
        ("separate", "5"),
    ],
)
def test_a_head_that_says_what_cannot_be_is_damaged(field, value):
    text = text_of(window_at(0).head)
    at = text.index(f'"{field}": ') + len(field) + 4
    # What stands there is a whole value of JSON.
    _, end = json.JSONDecoder().raw_decode(text, at)
    text = text[:at] + value + text[end:]
    with pytest.raises(StoreError, match="its head"):
        read_head(as_written(text))


@pytest.mark.parametrize("text", ["[" * 50_000, "{}", "[]", "7", "", '{"version": Infinity}'])
def test_what_is_no_head_is_damaged(text):
    with pytest.raises(StoreError, match="its head is damaged"):
        read_head(as_written(text))

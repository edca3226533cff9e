"""How far it is, in words, and who is told."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest

import prospect
from builders import perfdata as build
from builders.perfdata_features import feature_string
from builders.sources import CLOCK, CLOCK_ID
from prospect.announcing import bytes_of
from prospect.errors import UsageError
from prospect.perfdata.format import HEADER_HOSTNAME


@pytest.mark.parametrize(
    ("done", "whole", "text"),
    [
        (0, 0, "0.0 of 0.0 bytes"),
        (1_234_567_890, 3_300_000_000, "1.2 of 3.3 GB"),
        (40_000_000, 3_300_000_000, "0.0 of 3.3 GB"),
        (1_500_000, 0, "1.5 MB"),
        (2_000, 2_000, "2.0 of 2.0 kB"),
    ],
)
def test_bytes_are_told_in_one_unit(done, whole, text):
    assert bytes_of(done, whole) == text


@pytest.fixture
def recording(tmp_path):
    records = build.RecordBuilder()
    tail = {"id": CLOCK_ID, "cpu": 0}
    data = [
        records.comm(11, 11, "first", is_exec=True, time=1, **tail),
        records.mmap2(11, 11, 0x400000, 0x1000, "/none/first", time=2, **tail),
        *(
            records.sample(ip=0x400000 + 8, pid=11, tid=11, time=at, period=10_000_000, **tail)
            for at in range(10, 20)
        ),
    ]
    file = build.FileBuilder([CLOCK], data, {HEADER_HOSTNAME: feature_string("here")})
    (tmp_path / "perf.data").write_bytes(file.file())
    return tmp_path / "perf.data"


@pytest.mark.parametrize(
    "ask",
    [
        prospect.open,
        prospect.calls,
        partial(prospect.annotate, what="*first*", detail="4"),
        partial(prospect.annotate, source_files=True, detail="4"),
        prospect.archive,
    ],
)
def test_whoever_asks_in_python_is_told_when_they_want(ask, recording, capfd):
    news = []
    with suppress(UsageError):  # nothing here can be annotated
        ask(recording, use_cache=False, announce=news.append)
    assert "naming 1 of 1 objects: /none/first" in news
    assert capfd.readouterr() == ("", "")

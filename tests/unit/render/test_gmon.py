"""Histograms of gmon.out: what is beyond a bin's 65,535 ticks, and what is too much for a file."""

from __future__ import annotations

import io

import pytest

from builders.profile_builder import ProfileBuilder
from prospect.errors import UsageError
from prospect.foreign.gmon_profile import read_gmon
from prospect.render.registry import make_renderer

MS = 1_000_000


def written(*hits):
    """The file of (address, milliseconds)."""
    build = ProfileBuilder()
    command = build.process("prog", 11, is_command=True, is_descendant=True)
    function = build.function("main", build.object("/opt/prog"), 0)
    for address, ticks in hits:
        build.hit(command, function, count=1, period=ticks * MS, offset=address)
    out = io.BytesIO()
    try:
        make_renderer("gmon").render(build.build(), out)
    except UsageError:
        assert out.getvalue() == b""
        raise
    return out.getvalue()


def test_ticks_beyond_a_bin_are_in_further_histograms():
    data = written((16, 200_000), (18, 3))
    (histogram,) = read_gmon(memoryview(data)).histograms
    assert histogram.hits.tolist() == [200_000, 3]
    assert data.count(b"seconds") == 4


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "hits",
    [
        [(16, 4 * 10**12)],  # 61 million histograms
        [(16, 4 * 10**12)] * 1000,  # more nanoseconds than 64 bits hold
        [(0, 1000 * 65_535), (1 << 24, 1)],  # a thousand of 16 MiB
    ],
)
def test_hits_that_no_file_should_hold_are_refused(hits):
    with pytest.raises(UsageError, match="samples are too many"):
        written(*hits)

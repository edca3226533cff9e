"""Every format of comparisons by the rules of all renderers."""

from __future__ import annotations

import errno
import io

import pytest

from builders.profile import qsort_profile
from builders.runs import run_of
from prospect.errors import RenderError, UsageError
from prospect.estimate.compare.compared_sides import compare
from prospect.render.diff_registry import DIFF_FORMATS, diff_writer

every_format = pytest.mark.parametrize("name", DIFF_FORMATS)
COMPARISON = compare([qsort_profile()], [qsort_profile(wall_seconds=5.0)])


@every_format
def test_it_writes_the_same_each_time_and_leaves_the_file_open(name):
    texts = []
    for _ in range(2):
        out = io.BytesIO()
        diff_writer(name)(COMPARISON, out)
        assert not out.closed
        texts.append(out.getvalue())
    assert texts[0] == texts[1]
    assert texts[0].endswith(b"\n")


class _FullDisk(io.RawIOBase):
    def writable(self):
        return True

    def write(self, _data):
        raise OSError(errno.ENOSPC, "No space left on device")


@every_format
def test_a_full_disk_is_a_render_error(name):
    with pytest.raises(RenderError, match="No space left on device") as caught:
        diff_writer(name)(COMPARISON, _FullDisk())
    assert isinstance(caught.value.__cause__, OSError)


@every_format
def test_a_long_report_is_written_in_few_pieces(name):
    class Counting(io.BytesIO):
        writes = 0

        def write(self, data):
            self.writes += 1
            return super().write(data)

    run = run_of({f"function_{number}": 20 for number in range(5000)})
    out = Counting()
    diff_writer(name, rows=5000)(compare([run], [run]), out)
    assert len(out.getvalue()) > 80_000
    assert out.writes <= len(out.getvalue()) // 200_000 + 2


def test_an_unknown_format_is_refused_with_the_ones_there_are():
    with pytest.raises(UsageError, match="text, json"):
        diff_writer("csv")

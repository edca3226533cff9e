"""Every renderer by the same rules."""

import errno
import io
import re

import pytest

from builders.profile import (
    empty_profile,
    hostile_profile,
    huge_profile,
    perf_profile,
    qsort_profile,
    rowless_profile,
)
from builders.stacks import stacks_profile
from prospect.errors import RenderError, UsageError
from prospect.figures.processes import DETAILS
from prospect.options import declared_in
from prospect.records import field_names
from prospect.render.registry import FORMATS, make_renderer, renderer_class
from prospect.render.renderer import FiguresRenderer

PROFILES = {
    "empty": empty_profile(),
    "qsort": qsort_profile(),
    "hostile": hostile_profile(),
    "perf": perf_profile(),
    "rowless": rowless_profile(),
    "huge": huge_profile(20, 300),
    "stacks": stacks_profile(),
}
FIGURES = [name for name in FORMATS if issubclass(renderer_class(name), FiguresRenderer)]

every_renderer = pytest.mark.parametrize("name", FORMATS)


def _rendered(name, profile, **options):
    out = io.BytesIO()
    make_renderer(name, **options).render(profile, out)
    assert not out.closed
    return out.getvalue()


@every_renderer
@pytest.mark.parametrize("detail", DETAILS)
@pytest.mark.parametrize("case", PROFILES)
def test_every_profile_renders_at_every_detail_and_always_the_same(name, case, detail):
    first = _rendered(name, PROFILES[case], detail=detail)
    assert first or name == "folded"  # no stacks, no lines
    if not FORMATS[name].is_binary:
        assert first.endswith(b"\n") or not first
    if detail == "4":  # which has all rows
        assert _rendered(name, PROFILES[case], detail=detail) == first


@every_renderer
def test_a_renderer_is_a_frozen_record_whose_options_have_defaults(name):
    renderer = renderer_class(name)
    assert "detail" in field_names(renderer)
    made = renderer()
    with pytest.raises(AttributeError, match="is frozen"):
        made.detail = "3"


@every_renderer
def test_every_option_is_described(name):
    renderer = renderer_class(name)
    described = "".join(ancestor.__doc__ or "" for ancestor in renderer.__mro__)
    for option in set(field_names(renderer)) - declared_in(renderer).keys():
        # CPython 3.13 takes the indentation of docstrings away.
        assert re.search(rf"^ +{option}: ", described, re.MULTILINE)


@every_renderer
def test_an_option_without_meaning_is_refused_before_anything_is_written(name):
    thresholds = ({"user_threshold_s": -1.0}, {"kernel_threshold_s": -1.0})
    for options in ({"detail": "9"}, *(thresholds if name in FIGURES else ())):
        out = io.BytesIO()
        with pytest.raises(UsageError):
            make_renderer(name, **options).render(qsort_profile(), out)
        assert out.getvalue() == b""


class _FullDisk(io.RawIOBase):
    def writable(self):
        return True

    def write(self, _data):
        raise OSError(errno.ENOSPC, "No space left on device")


@every_renderer
def test_a_full_disk_is_a_render_error(name):
    with pytest.raises(RenderError, match="No space left on device") as caught:
        make_renderer(name).render(qsort_profile(), _FullDisk())
    assert isinstance(caught.value.__cause__, OSError)


@every_renderer
def test_the_profile_is_not_changed(name):
    profile = rowless_profile()
    before = [column.copy() for column in vars(profile.hits).values() if column is not None]
    _rendered(name, profile, detail="4")
    after = [column for column in vars(profile.hits).values() if column is not None]
    assert all((old == new).all() for old, new in zip(before, after, strict=True))
    assert len(profile.processes) == 1


@every_renderer
def test_a_long_report_is_written_in_few_pieces(name):
    class Counting(io.BytesIO):
        writes = 0

        def write(self, data):
            self.writes += 1
            return super().write(data)

    out = Counting()
    make_renderer(name, detail="4", user_threshold_s=0.0).render(huge_profile(200, 4000), out)
    assert out.writes <= len(out.getvalue()) // 200_000 + 2


def test_an_unknown_format_is_refused_with_the_ones_there_are():
    with pytest.raises(UsageError, match="text, json, csv, html, xml, gmon, folded"):
        make_renderer("yaml")


def test_options_of_other_formats_are_passed_over():
    assert make_renderer("csv", colour=True, detail="3").detail == "3"

"""What the report says of copies of stacks."""

from __future__ import annotations

import pytest

from prospect.figures.stacks.stack_quality import StackEnds, StackQuality
from prospect.render.json.common_fields import ANY_STACK_QUALITY
from prospect.render.text.quality_sections import stack_quality_lines
from prospect.render.text.style import Style

WHOLE = StackQuality(10, 0, 8192, {"complete": 10})
CUT = StackQuality(
    samples=110,
    without_copy=2,
    copy_bytes=8192,
    by_end={"complete": 90, "cut": 15, "no row": 3},
    continued=4,
    cut_frames=(51, 87),
    size_for_99=32768,
    is_size_least=True,
    places=(StackEnds("/bin/a\x1b[31m", "cut", 15),),
)


def text(quality):
    return "\n".join(stack_quality_lines(quality, Style(colour=False)))


def test_nothing_is_said_where_nothing_was_copied():
    assert text(None) == ""
    assert ANY_STACK_QUALITY.convert(None) == {}


def test_whole_stacks_are_one_line():
    lines = text(WHOLE).splitlines()
    assert lines[-1] == "Of 10 copies of user stacks, 10 (100%) were unwound whole."


def test_cut_ones_come_with_how_deep_and_what_would_do():
    told = text(CUT)
    assert "Of 108 copies of user stacks, 90 (83%) were unwound whole." in told
    assert "15 were cut, longer than the 8192 bytes" in told
    assert "51 frames or less, the deepest 87" in told
    assert "more than 32768 bytes to hold 99% of them whole: try --call-graph dwarf,65520" in told
    assert "3 end early for other reasons" in told
    assert "4 of those that end early go on by frame pointers" in told
    assert "The kernel could not copy the stack of 2 samples." in told
    assert "15 end in /bin/a" in told
    assert "\x1b" not in told


def test_cut_chains_come_with_their_limit_and_its_sysctl():
    told = text(StackQuality(stacks=10, cut_stacks=5, most_frames=127))
    assert "Of 10 call stacks, 5 (50%) were cut" in told
    assert "at most 127 frames" in told
    assert "kernel.perf_event_max_stack" in told
    assert "copies" not in told


@pytest.mark.parametrize(
    ("size", "words"),
    [(65536, "No copy is large enough for 99%"), (64512, "--call-graph dwarf,64512")],
)
def test_no_size_is_named_that_the_kernel_refuses(size, words):
    quality = StackQuality(10, 0, 8192, {"cut": 10}, size_for_99=size)
    assert words in text(quality)


def test_json_has_every_figure():
    fields = ANY_STACK_QUALITY.convert(CUT)["stack_quality"]
    assert fields["by_end"] == CUT.by_end
    assert (fields["cut_frames_median"], fields["cut_frames_most"]) == (51, 87)
    assert fields["places"] == [{"object": "/bin/a\x1b[31m", "reason": "cut", "samples": 15}]

"""What is said of stacks that are not whole, and of the size that would have held them."""

from __future__ import annotations

import numpy as np
import pytest

from builders.profile_builder import ProfileBuilder
from prospect.assembly.stacks.unwinding import stack_copies
from prospect.columns.forests import forest_of_lists
from prospect.figures.stacks.stack_quality import stack_quality
from prospect.records import replace
from prospect.symbols.objects import ObjectKey
from prospect.unwind import interface

COMPLETE, CUT, NO_ROW = interface.END_COMPLETE, interface.END_CUT, interface.END_NO_ROW
TOP = 0x7FFF_0000_0000


def described(ends, *, depth, below_top, copied, needed=0, task=0, object_row=0, detail="4"):
    count = len(ends)
    columns = np.broadcast_arrays(
        *(np.array(c, np.int64) for c in (ends, depth, below_top, copied, needed, task, object_row))
    )
    end, depth, below_top, copied, needed, task, object_row = columns
    sp = np.uint64(TOP) - below_top.astype(np.uint64)
    given = interface.UnwindInput(
        machine=62,
        context=np.zeros(count, np.int32),
        pc=sp,
        sp=sp,
        fp=sp,
        stack_block=np.where(copied > 0, 0, -1).astype(np.int32),
        stack_begin=np.zeros(count, np.int64),
        stack_bytes=copied,
        blocks=(),
    )
    none = np.zeros(count, np.int64)
    sites = interface.SiteTable(
        none.astype(np.int32), sp, object_row.astype(np.int32), sp, none, none > 0
    )
    site = np.arange(count, dtype=np.int32)
    stacks, innermost = forest_of_lists(np.repeat(site, depth), depth)
    found = interface.Unwound(stacks, innermost, site, sites, end.astype(np.uint8), needed, needed)
    keys = [ObjectKey(b"/bin/one"), ObjectKey(b"/bin/two")]
    is_continued = np.arange(count) < 3
    copies = stack_copies(given, found, task.astype(np.uint64), keys, 1024, is_continued)
    build = ProfileBuilder()
    build.process("command", 7, is_command=True)
    build.process("other", 5)
    return stack_quality(replace(build.build(), stack_copies=copies), detail)


def test_whole_stacks_need_nothing():
    quality = described([COMPLETE] * 4, depth=5, below_top=500, copied=500)
    assert (quality.samples, quality.whole, quality.cut) == (4, 4, 0)
    assert (quality.size_for_99, quality.cut_frames, quality.places) == (0, (0, 0), ())
    assert quality.continued == 3


def test_a_size_is_told_by_the_threads_far_end():
    # One whole stack says where the thread's stack ends: the cut ones reach 5000 bytes up to there.
    quality = described(
        [COMPLETE, CUT, CUT, CUT],
        depth=[3, 8, 9, 20],
        below_top=[300, 5000, 5000, 5000],
        copied=[300, 1024, 1024, 1024],
        needed=[0, 1100, 1100, 1100],
    )
    assert quality.size_for_99 == quality.size_to_ask_for == 5 * 1024
    assert not quality.is_size_least
    assert quality.cut_frames == (9, 20)


def test_what_a_thread_that_was_never_whole_needs_is_a_least():
    quality = described(
        [COMPLETE, CUT],
        depth=4,
        below_top=[300, 9000],
        copied=[300, 1024],
        needed=[0, 2050],
        task=[1, 2],
    )
    assert (quality.size_for_99, quality.is_size_least) == (3 * 1024, True)
    assert quality.size_to_ask_for == 6 * 1024


def test_another_stack_of_the_thread_says_nothing_of_this_one():
    # The thread was another program once: exec put its stack elsewhere.
    quality = described(
        [COMPLETE, COMPLETE, CUT, CUT],
        depth=4,
        below_top=[300, 1 << 30, 9000, (1 << 30) + 5000],
        copied=[300, 500, 1024, 1024],
        needed=[0, 0, 1100, 1100],
    )
    assert (quality.size_for_99, quality.is_size_least) == (9 * 1024, False)
    quality = described(
        [COMPLETE, CUT], depth=4, below_top=[300, 1 << 30], copied=[300, 1024], needed=[0, 1100]
    )
    assert (quality.size_for_99, quality.is_size_least) == (2 * 1024, True)


@pytest.mark.parametrize(("cut", "size"), [(1, 0), (2, 2048)])
def test_one_cut_stack_in_a_hundred_is_within_the_share(cut, size):
    ends = [CUT] * cut + [COMPLETE] * (100 - cut)
    below = [2000] * cut + [300] * (100 - cut)
    quality = described(ends, depth=2, below_top=below, copied=np.minimum(below, 1024))
    assert quality.size_for_99 == size


def test_stacks_are_counted_by_where_they_end():
    quality = described(
        [CUT, CUT, NO_ROW, COMPLETE, NO_ROW, CUT],
        depth=[2, 2, 2, 2, 2, 0],
        below_top=2000,
        copied=[1024, 1024, 1024, 1024, 1024, 0],
        object_row=[1, 1, -1, 0, 0, 0],
    )
    assert quality.without_copy == 1
    assert quality.by_end == {"complete": 1, "cut": 2, "no row": 2}
    assert [(p.object_path, p.reason, p.samples) for p in quality.places] == [
        ("/bin/two", "cut", 2),
        ("code without an image", "no row", 1),
        ("/bin/one", "no row", 1),
    ]


@pytest.mark.parametrize(
    ("detail", "samples", "by_end"),
    [("2", 2, {"complete": 1, "cut": 1}), ("4", 4, {"complete": 2, "cut": 1})],
)
def test_stacks_are_those_of_the_processes_that_are_asked_for(detail, samples, by_end):
    # The kernel writes the process before the thread: it is the lower half of the word.
    threads = [7 | 8 << 32, 7 | 9 << 32, 5 | 5 << 32, 5 | 5 << 32]
    ends, copied = [CUT, COMPLETE, COMPLETE, CUT], [500, 500, 500, 0]
    quality = described(ends, depth=3, below_top=500, copied=copied, task=threads, detail=detail)
    assert (quality.samples, quality.by_end) == (samples, by_end)

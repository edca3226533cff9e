"""Call chains as long as the kernel's limit are counted, and begin with a frame [cut]."""

from __future__ import annotations

import numpy as np
import pytest

from builders import perfdata as build
from builders.sources import CLOCK, CLOCK_ID, BuiltSource
from prospect.abi import constants as abi
from prospect.abi.recorded_facts import RecordingInfo
from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import ProfileRequest
from prospect.assembly.stacks.chain_frames import cut_chains
from prospect.figures.report.report_view import ReportView
from prospect.figures.stacks.stack_quality import stack_quality
from prospect.options import NamingOptions
from prospect.profile.complete import complete

USER, KERNEL = abi.PERF_CONTEXT_USER % (1 << 64), abi.PERF_CONTEXT_KERNEL % (1 << 64)
PROGRAM, TOP = 0x400000, 0xFFFFFFFF81000000
OPTIONS = NamingOptions(use_cache=False, debuginfod_s=0)


def described(most_frames):
    attr = CLOCK.attr._replace(
        sample_type=build.USUAL | build.CALLCHAIN, sample_max_stack=most_frames
    )
    return CLOCK._replace(attr=attr)


def source(most_frames, *chains):
    event = described(most_frames)
    make = build.RecordBuilder(event.attr.sample_type)
    tail = {"id": CLOCK_ID, "cpu": 0}
    mapped = make.mmap2(7, 7, PROGRAM, 0x10000, "/none/program", inode=1)
    hits = [
        make.sample(
            ip=chain[1],
            pid=7,
            tid=7,
            time=5 + number,
            chain=chain,
            misc=build.MISC_KERNEL if chain[0] == KERNEL else build.MISC_USER,
            **tail,
        )
        for number, chain in enumerate(chains)
    ]
    return BuiltSource([mapped, *hits], RecordingInfo(events=(event,), hostname="elsewhere"))


def user(frames):
    return (USER, *(PROGRAM + 0x10 * (1 + at) for at in range(frames)))


def kernel(frames):
    return (KERNEL, *(TOP + 0x10 * (1 + at) for at in range(frames)))


def roots(profile):
    """Return the object of each sample's frames, the outermost first."""
    found = []
    for row in profile.samples.stack_index.tolist():
        at, objects = row, []
        while at >= 0:
            function = profile.locations.function_index[profile.stacks.location_index[at]]
            objects.append(profile.objects.path[profile.functions.object_index[function]])
            at = int(profile.stacks.caller_index[at])
        found.append(objects[::-1])
    return found


def test_a_chain_as_long_as_the_limit_begins_in_cut():
    chains = user(4), user(3), (*kernel(2), *user(2)), kernel(4), (*kernel(1), *user(2))
    profile = build_profile(source(4, *chains), OPTIONS, ProfileRequest(stacks=True))
    code, text = "/none/program", "[kernel.kallsyms]"
    assert roots(profile) == [
        ["[cut]", *[code] * 4],
        [code] * 3,
        ["[cut]", *[code] * 2, *[text] * 2],
        ["[cut]", *[text] * 4],
        [*[code] * 2, text],
    ]
    quality = stack_quality(profile)
    assert (quality.stacks, quality.cut_stacks, quality.most_frames) == (5, 3, 4)


def test_without_stacks_cut_chains_are_counted_all_the_same():
    profile = build_profile(source(4, user(4), user(3)), OPTIONS)
    assert profile.run.cut_chains == ((7, 1),)
    quality = stack_quality(profile)
    assert (quality.stacks, quality.cut_stacks) == (2, 1)
    assert ReportView(complete(profile)).has_short_stacks


@pytest.mark.parametrize(
    ("most_frames", "lengths", "expected"),
    [
        (0, (127, 126), [True, False]),  # perf's attributes leave the number to the sysctl
        (0, (127, 128), [False, False]),  # which was larger
        (200, (127, 199, 200), [False, False, True]),
    ],
)
def test_the_limit_is_that_of_the_recording(most_frames, lengths, expected):
    given = source(most_frames, *map(user, lengths))
    profile = build_profile(given, OPTIONS)
    assert bool(profile.run.cut_chains) == any(expected)
    assert sum(count for _, count in profile.run.cut_chains) == sum(expected)


def test_samples_without_chains_are_not_cut():
    given = source(4)
    profile = build_profile(given, OPTIONS, ProfileRequest(stacks=True))
    assert stack_quality(profile) is None
    assert not ReportView(complete(profile)).has_short_stacks


def test_each_event_has_its_own_limit():
    class Two:
        chain_start = np.array([0, 5, 10])
        chain = np.array([*user(4), *user(4)], np.uint64)
        event = np.array([0, 1], np.uint16)

        def __len__(self):
            return 2

    assert cut_chains(Two(), [described(4), described(5)]).tolist() == [True, False]

"""What is exported, read and exported again is the same."""

from __future__ import annotations

import gzip
import io
from collections import Counter

import numpy as np
import pytest

from builders.pprof_schema import pprof_profile as pprof_message
from builders.profile import qsort_profile
from builders.stacks import lined_stacks_profile, random_stacks_profile, stacks_profile
from prospect.figures.calls.calls_view import CallsChoice, calls_view
from prospect.figures.calls.sample_choice import SampleChoice
from prospect.foreign.folded_profile import folded_profile
from prospect.foreign.gmon_profile import read_gmon
from prospect.foreign.pprof_profile import pprof_profile
from prospect.records import replace
from prospect.render.registry import make_renderer

PROFILES = {
    "stacks": stacks_profile(),
    "lines": lined_stacks_profile(),
    "no stacks": qsort_profile(),
    "random": random_stacks_profile(3000, 500, 12),
}
every_profile = pytest.mark.parametrize("name", PROFILES)


def rendered(profile, name, **options):
    out = io.BytesIO()
    make_renderer(name, detail="4", **options).render(profile, out)
    return out.getvalue()


@every_profile
@pytest.mark.parametrize("inline", [False, True])
def test_folded_stacks_are_the_same_bytes(name, inline):
    first = rendered(PROFILES[name], "folded", inline=inline)
    assert first
    assert rendered(folded_profile("x", memoryview(first)), "folded") == first


@every_profile
@pytest.mark.parametrize("inline", [False, True])
def test_pprof_has_the_same_samples(name, inline):
    def samples(data):
        profile = pprof_message(gzip.decompress(data))
        strings = profile.string_table
        functions = {one.id: strings[one.name] for one in profile.function}
        mappings = {one.id: strings[one.filename] for one in profile.mapping}
        places = {
            one.id: (
                one.address,
                mappings[one.mapping_id],
                tuple((functions[line.function_id], line.line) for line in one.line),
            )
            for one in profile.location
        }
        totals = Counter()
        for sample in profile.sample:
            labels = {strings[label.key]: strings[label.str] for label in sample.label}
            kept = tuple(labels.get(key) for key in ("process", "pid", "thread", "entry_reason"))
            stack = tuple(places[number] for number in sample.location_id)
            for nth, value in enumerate(sample.value):
                totals[kept, stack, nth] += value
        return +totals

    first = rendered(PROFILES[name], "pprof", inline=inline)
    again = rendered(pprof_profile("x", memoryview(first)), "pprof", inline=inline)
    assert samples(again) == samples(first)


@every_profile
def test_imported_stacks_have_the_same_callers(name):
    profile = PROFILES[name]
    imported = pprof_profile("x", memoryview(rendered(profile, "pprof")))
    folded = rendered(imported, "folded")
    assert folded == rendered(profile, "folded")
    view = calls_view(imported, CallsChoice(SampleChoice("4"), sections=("totals", "graph")))
    assert sum(event.graph.hits for event in view.events) == profile.hits.count.sum()


def test_a_gmon_out_has_all_time_of_the_program_in_its_functions():
    profile = qsort_profile()
    hits = profile.hits
    profile = replace(
        profile, hits=replace(hits, count=hits.count * 5000, period=hits.period * 5000)
    )
    found = read_gmon(memoryview(rendered(profile, "gmon")))
    (histogram,) = found.histograms
    function = profile.locations.function_index.take(hits.location_index)
    objects = profile.functions.object_index.take(function)
    seconds = np.bincount(objects, profile.hits.period * 1e-9)
    program = [path.rpartition("/")[2] for path in profile.objects.path].index("qsort")
    assert histogram.hits.max() > 0xFFFF
    assert histogram.hits.sum() / histogram.rate_hz == pytest.approx(seconds[program], abs=1e-3)

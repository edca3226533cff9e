from __future__ import annotations

import numpy as np
import pytest

from builders.gmon import arc, blocks, bsd_gmon_out, gmon_out, histogram
from prospect.errors import RecordingError
from prospect.foreign.detection import foreign_kind
from prospect.foreign.gmon_profile import ProgramFunctions, gmon_profile, read_gmon

FORMS = [(order, width) for order in "<>" for width in "QI"]


def read(data):
    return read_gmon(memoryview(data))


def functions(*starts, end):
    return ProgramFunctions(
        start=np.array(starts, np.uint64),
        end=np.array([*starts[1:], end], np.uint64),
        name=[f"f{place}".encode() for place in range(len(starts))],
        is_global=np.ones(len(starts), np.bool_),
        is_function=np.ones(len(starts), np.bool_),
    )


def profile(data, of):
    return gmon_profile("gmon.out", "/bin/prog", read(data), of, [n.decode() for n in of.name])


@pytest.mark.parametrize(("order", "width"), FORMS)
@pytest.mark.parametrize("version", [0, 1])
def test_every_byte_order_width_and_version_is_read(order, width, version):
    data = gmon_out(
        histogram(0x1000, 0x1010, [1, 0, 258, 3], order=order, width=width),
        arc(0x1004, 0x1008, 70000, order=order, width=width),
        arc(0x1000, 0x1004, 2, order=order, width=width),
        blocks({0x1000: 9, 0x1002: 1}, order=order, width=width),
        order=order,
        version=version,
    )
    found = read(data)
    assert [(h.low, h.high, h.rate_hz) for h in found.histograms] == [(0x1000, 0x1010, 100)]
    assert found.histograms[0].hits.tolist() == [1, 0, 258, 3]
    assert found.arc_from.tolist() == [0x1004, 0x1000]
    assert found.arc_to.tolist() == [0x1008, 0x1004]
    assert found.arc_calls.tolist() == [70000, 2]
    assert found.block.tolist() == [0x1000, 0x1002]
    assert found.block_runs.tolist() == [9, 1]
    assert foreign_kind(data) == "gmon"


@pytest.mark.parametrize(("order", "width"), FORMS)
def test_the_form_of_4_4bsd_is_read(order, width):
    data = bsd_gmon_out(
        0x1000, 0x1010, [5, 6, 7, 8], [(0x1004, 0x1008, 12)], order=order, width=width
    )
    found = read(data)
    assert found.histograms[0].hits.tolist() == [5, 6, 7, 8]
    assert (found.arc_from.tolist(), found.arc_calls.tolist()) == ([0x1004], [12])
    assert foreign_kind(data) == "gmon"


def test_histograms_of_the_same_addresses_add_up():
    data = gmon_out(
        histogram(0, 8, [1, 2]), histogram(0, 8, [60000, 3]), histogram(0, 8, [60000, 0])
    )
    assert read(data).histograms[0].hits.tolist() == [120001, 5]


@pytest.mark.parametrize(
    "data",
    [
        gmon_out(histogram(0, 8, [1, 2]), histogram(4, 12, [1, 2])),
        gmon_out(histogram(0, 8, [1, 2]), histogram(8, 16, [1, 2], rate_hz=50)),
        gmon_out(histogram(8, 0, [1, 2])),
        gmon_out(histogram(0, 8, [1, 2]))[:-1],
        gmon_out(arc(1, 2, 3))[:-1],
        gmon_out(blocks({1: 2}))[:-1],
        gmon_out(b"\3"),
        gmon_out(version=2),
        b"gmon",
    ],
)
def test_what_cannot_be_meant_is_refused(data):
    with pytest.raises(RecordingError):
        read(data)


def test_a_bin_of_two_functions_is_shared_by_their_parts():
    # Bins of 8 bytes; the first function ends 2 bytes into the second bin.
    found = profile(
        gmon_out(histogram(0x1000, 0x1010, [4, 8])), functions(0x1000, 0x100A, end=0x1010)
    )
    event, hits = found.run.events[0], found.hits
    names = [
        found.functions.name[row] for row in found.locations.function_index[hits.location_index]
    ]
    seconds = dict(zip(names, (hits.period * event.seconds_per_period).tolist(), strict=True))
    assert seconds == pytest.approx({"f0": (4 + 2) / 100, "f1": 6 / 100})
    assert dict(zip(names, hits.count.tolist(), strict=True)) == {"f0": 4, "f1": 8}


def test_arcs_between_the_same_functions_add_up_and_strays_are_told():
    data = gmon_out(
        histogram(0x1000, 0x1010, [0, 0]),
        arc(0x1002, 0x1008, 3),
        arc(0x1004, 0x1008, 4),
        arc(0x9999, 0x1008, 5),
    )
    counts = profile(data, functions(0x1000, 0x1008, end=0x1010)).call_counts
    assert counts.calls.tolist() == [7]
    assert counts.caller_index.tolist() == [0]
    assert counts.functions.name == ["f1"]
    assert counts.dropped == 5


def test_ticks_outside_every_function_are_said():
    found = profile(gmon_out(histogram(0, 0x2000, [9] * 1024)), functions(0x1000, end=0x1010))
    assert any("is it the right program?" in limit for limit in found.run.limits)

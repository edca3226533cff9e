"""Raw data of samples, decoded by event sources: AMD's IBS, others', and those that fail."""

from __future__ import annotations

import io
import json
import struct

import pytest

from builders.perfdata import USUAL, FileBuilder, RecordBuilder
from builders.perfdata_features import feature_event_desc
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.analysis.reading import read_profile
from prospect.perfdata import format as fmt
from prospect.render.registry import make_renderer

IBS_TYPE = 11
KINDS = USUAL | abi.PERF_SAMPLE_RAW
VALID = 1 << 18
LOAD, STORE, TLB_MISS, MISS, NO_MAB, L2_MISS = 1, 2, 4, 1 << 7, 1 << 16, 1 << 20
BRANCH, MISPREDICTED, TAKEN = 1 << 37, 1 << 36, 1 << 35
ZEN4 = 1 << 11


def ibs(data=0, data2=0, data3=0, *, caps=0, control=VALID):
    """Return what the kernel's perf_ibs_handle_irq() puts together."""
    return struct.pack("<I7Q", caps, control, 0x1010, data, data2, data3, 0, 0)


def latency(cycles):
    return cycles << 32


def recording(tmp_path, raws, name="ibs_op//"):
    records = RecordBuilder(KINDS)
    samples = [
        records.sample(pid=5, tid=5, id=1, ip=0x1010 + 16 * (row % 2), time=10**6 * row, raw=raw)
        for row, raw in enumerate(raws)
    ]
    attr = EventAttr(type=IBS_TYPE, sample_type=KINDS, sample_period=10**5)
    path = tmp_path / "run.data"
    events = [EventDescription(attr, (1,), name)]
    features = {fmt.HEADER_EVENT_DESC: feature_event_desc(events)}
    path.write_bytes(FileBuilder(events, samples, features).file())
    return str(path)


def columns_of(path):
    (data,) = read_profile(path).sample_data
    return {
        column.name: [
            None if value != value else column.texts[int(value)] if column.texts else value  # noqa: PLR0124 - NaN
            for value in column.values.tolist()
        ]
        for column in data.columns
    }


def test_latencies_sources_and_mispredictions_of_ibs(tmp_path):
    found = columns_of(
        recording(
            tmp_path,
            [
                ibs(7 << 16 | 3, 3, LOAD | MISS | L2_MISS | latency(412)),
                ibs(BRANCH | MISPREDICTED | TAKEN | 9 << 16, 3),
                ibs(BRANCH | TAKEN, 0, STORE),
                ibs(0, 0, LOAD | TLB_MISS | 55 << 48),
                ibs(0, 1 << 4 | 3, LOAD | MISS | latency(900)),
            ],
        )
    )
    assert found["load miss latency, cycles"] == [412, None, None, None, 900]
    assert found["TLB refill latency, cycles"] == [None, None, None, 55, None]
    assert found["tag to retire, cycles"] == [7, 9, 0, 0, 0]
    assert found["completion to retire, cycles"] == [3, 0, 0, 0, 0]
    assert found["data source of misses"] == ["DRAM", None, None, None, "DRAM of another node"]
    assert found["branch"] == [None, "mispredicted", "taken", None, None]
    assert found["operation"] == ["load", "other", "store", "load", "load"]
    assert found["load"] == ["L2 miss", None, None, "L1 hit", "L2 hit"]


@pytest.mark.parametrize(
    ("caps", "data2", "source"),
    [
        (0, 2, "local cache"),
        (0, 4, "remote cache"),
        (ZEN4, 1, "L3 or caches of the same complex"),
        (ZEN4, 2, "cache of another complex, same node"),
        (ZEN4, 1 << 6, "extension memory"),
        (ZEN4, 1 << 6 | 4, "memory of another type of CPU"),
        (0, 1 << 6, None),  # bits that only newer processors have
    ],
)
def test_data_sources_are_those_of_the_processor(tmp_path, caps, data2, source):
    found = columns_of(recording(tmp_path, [ibs(0, data2, LOAD | MISS, caps=caps)]))
    assert found["data source of misses"] == [source]


def test_what_hardware_gets_wrong_or_did_not_take_is_left_out(tmp_path):
    raws = [
        ibs(0, 3, LOAD | MISS | NO_MAB | latency(5)),
        ibs(BRANCH, 3, LOAD, control=0),
        ibs()[:20],
        b"",
    ]
    found = columns_of(recording(tmp_path, raws))
    assert found["data source of misses"] == [None] * 4
    assert found["load miss latency, cycles"] == [5, None, None, None]
    assert found["branch"] == [None] * 4


def test_the_report_shows_it(tmp_path):
    path = recording(tmp_path, [ibs(0, 3, LOAD | MISS | latency(100 * row)) for row in range(4)])
    profile = read_profile(path)
    text, document = io.BytesIO(), io.BytesIO()
    make_renderer("text", detail="4").render(profile, text)
    assert "What Samples of ibs_op// Say" in text.getvalue().decode()
    assert "DRAM" in text.getvalue().decode()
    make_renderer("json", detail="4").render(profile, document)
    (data,) = json.loads(document.getvalue())["sample_data"]
    (of_latency,) = [one for one in data["numbers"] if "miss latency" in one["name"]]
    assert (of_latency["samples"], of_latency["mean"], of_latency["most"]) == (4, 150, 300)
    assert sum(part["share"] for part in of_latency["functions"]) == pytest.approx(1)
    assert data["texts"][-1]["rows"] == [{"text": "DRAM", "samples": 4, "share": 1.0}]


def test_a_source_of_another_package_decodes_its_own_pmu(tmp_path, install_plugin):
    install_plugin("prospect.events", "my_pmu", "def run(raw): return {'port': raw.u8(1)}\n")
    path = recording(tmp_path, [b"\x01\x02\x03", b"\x01"], "my_pmu/event=1/")
    assert columns_of(path) == {"port": [2, 0]}


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("def run(raw): 1 / 0\n", "ZeroDivisionError"),
        ("def run(raw): return 5\n", "no dict"),
        ("def run(raw): return {'a': [1]}\n", "shape"),
        ("def run(raw): return {'a': [{}, {}]}\n", "float"),
        ("import nothing_such\n", "nothing_such"),
    ],
)
def test_one_that_fails_is_named_once_and_left_out(tmp_path, install_plugin, code, says):
    install_plugin("prospect.events", "my_pmu", code)
    profile = read_profile(recording(tmp_path, [b"\x01"] * 2, "my_pmu/event=1/"))
    (limit,) = [one for one in profile.run.limits if "event source my_pmu" in one]
    assert says in limit
    assert "plug-in of prospect-test" in limit
    assert profile.sample_data == ()
    assert int(profile.hits.count.sum()) == 2


def test_an_event_that_nobody_decodes_costs_nothing(tmp_path):
    profile = read_profile(recording(tmp_path, [b"\x01"], "uncore_x/event=1/"))
    assert profile.sample_data == ()

"""Vendors' events through libpfm4: their codes, and what is said of what cannot be had.

The library takes the processor that it is to believe in from the environment as it starts, so each
processor is a process of its own.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys

import pytest

from prospect.abi import constants as abi
from prospect.capture.events import pmus, vendor_events
from prospect.capture.events.event_listing import list_events
from prospect.capture.events.event_parsing import parse_events
from prospect.capture.events.vendor_events import listed_events, vendor_event
from prospect.errors import UsageError

KERNEL, HYPERVISOR = abi.FLAG_EXCLUDE_KERNEL, abi.FLAG_EXCLUDE_HV
EVENTS = """
import json, sys
from prospect.capture.events.event_parsing import parse_events
from prospect.errors import ProspectError
for text in json.load(sys.stdin):
    try:
        event, = parse_events(text)
        print(json.dumps([event.name, *event.attr[:3], event.attr.config1, event.attr.flags]))
    except ProspectError as error:
        print(json.dumps(str(error)))
"""
LISTED = """
import json, sys
from prospect.capture.events.event_listing import list_events
for pattern in json.load(sys.stdin):
    print(json.dumps([[e.name, e.description] for e in list_events(pattern)[0]]))
"""
# A core of four counters, which refuses what they cannot hold, as the kernel's validate_group().
GROUPED = """
import errno, json, os, sys
from prospect.abi import constants as abi
from prospect.capture.counting import event_counters as counters
from prospect.capture.events.event_parsing import parse_events
from prospect.errors import ProspectError
members = {}
def open_chosen(event, pid, cpu, leader=-1):
    fd = os.memfd_create(event.name)
    group = members.setdefault(fd if leader < 0 else leader, [])
    if event.attr.type == abi.PERF_TYPE_RAW:
        if len(group) == 4:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        group.append(fd)
    return fd
counters.open_chosen = open_chosen
for text in json.load(sys.stdin):
    members.clear()
    found = counters.CounterSet(counters.CountTarget(pids=(7,)))
    try:
        found.open(parse_events(text))
        print(json.dumps([[e.name for e in found.events], sorted(map(len, members.values()))]))
    except ProspectError as error:
        print(json.dumps(str(error)))
    found.close()
"""
# Codes as Intel publishes them (skylake_core.json, icelake_core.json and others of its event
# tables), and AMD (processor programming references of families 17h and 19h, "Core Performance
# Monitor Counters"): unit mask and event, from bit 24 the counter mask, bit 23 invert, bit 18 edge;
# of AMD the event's upper bits from bit 32.
PUBLISHED = {
    "skl": {
        "MEM_LOAD_RETIRED.L1_HIT": 0x01D1,
        "MEM_LOAD_RETIRED.L3_MISS": 0x20D1,
        "MEM_LOAD_RETIRED.FB_HIT": 0x40D1,
        "INST_RETIRED.ANY_P": 0x00C0,
        "LONGEST_LAT_CACHE.MISS": 0x412E,
        "BR_MISP_RETIRED.ALL_BRANCHES": 0x00C5,
        "UOPS_ISSUED.ANY": 0x010E,
        "UOPS_ISSUED.STALL_CYCLES": 0x0180010E,
        "CYCLE_ACTIVITY.STALLS_L3_MISS": 0x060006A3,
        "DTLB_LOAD_MISSES.WALK_ACTIVE": 0x01001008,
    },
    "icl": {
        "MEM_LOAD_RETIRED.L2_MISS": 0x10D1,
        "TOPDOWN.SLOTS_P": 0x01A4,
        "L1D.REPLACEMENT": 0x0151,
        "BR_INST_RETIRED.COND_TAKEN": 0x01C4,
    },
    "hsw": {
        "MEM_LOAD_UOPS_RETIRED.L3_MISS": 0x20D1,
        "IDQ.MITE_UOPS": 0x0479,
        "LD_BLOCKS.STORE_FORWARD": 0x0203,
    },
    "spr": {
        "MEM_LOAD_RETIRED.L3_MISS": 0x20D1,
        "MEM_INST_RETIRED.ALL_LOADS": 0x81D0,
        "LONGEST_LAT_CACHE.MISS": 0x412E,
        "BR_MISP_RETIRED.ALL_BRANCHES": 0x00C5,
        "DTLB_LOAD_MISSES.WALK_COMPLETED": 0x0E12,
        "TOPDOWN.SLOTS_P": 0x01A4,
    },
    "amd64_fam17h_zen2": {
        "RETIRED_INSTRUCTIONS": 0xC0,
        "RETIRED_BRANCH_INSTRUCTIONS_MISPREDICTED": 0xC3,
        "CYCLES_NOT_IN_HALT": 0x76,
    },
    "amd64_fam19h_zen4": {
        "RETIRED_INSTRUCTIONS": 0xC0,
        "RETIRED_BRANCH_INSTRUCTIONS_MISPREDICTED": 0xC3,
        "CYCLES_NOT_IN_HALT": 0x76,
        "IC_TAG_HIT_MISS:IC_MISS": 0x10000188E,
    },
    "amd64_fam19h_zen3": {
        "RETIRED_INSTRUCTIONS": 0xC0,
        "RETIRED_BRANCH_INSTRUCTIONS_MISPREDICTED": 0xC3,
        "INSTRUCTION_CACHE_REFILLS_FROM_L2": 0x82,
        "IC_TAG_HIT_MISS:IC_MISS": 0x10000188E,
        "OP_CACHE_HIT_MISS:OC_MISS": 0x20000048F,
    },
}


@pytest.fixture(autouse=True)
def _needs_the_library():
    if sys.platform == "linux" and vendor_events.library() is None:
        pytest.skip("libpfm4 is not installed")


def on(processor, script, asked):
    """Return what a script prints of each thing asked for, on another processor."""
    ran = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(list(asked)),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "LIBPFM_FORCE_PMU": processor},
    )
    return [json.loads(line) for line in ran.stdout.splitlines()]


# Which vendors a build of the library knows depends on the architecture that it is for.
X86 = pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="this build of libpfm4 knows no x86 events"
)


@X86
@pytest.mark.parametrize("processor", PUBLISHED)
def test_codes_are_those_that_vendors_publish(processor):
    published = PUBLISHED[processor]
    for name, found in zip(published, on(processor, EVENTS, published), strict=True):
        assert found[:5] == [name, abi.PERF_TYPE_RAW, published[name], 0, 0], name


@X86
def test_masks_modifiers_and_units_stand_behind_colons():
    stem = "MEM_LOAD_RETIRED:L3_MISS"
    texts = [stem, f"skl::{stem}:u", "mem_load_retired.l3_miss:c=2:i:kpp", f"{stem}/period=1000/u"]
    plain, user, counted, period = on("skl", EVENTS, texts)
    assert plain[1:] == [abi.PERF_TYPE_RAW, 0x20D1, 0, 0, 0]
    assert user[0] == f"skl::{stem}:u"
    assert user[5] == KERNEL | HYPERVISOR
    assert counted[2] == 0x028020D1
    assert counted[5] == abi.FLAG_EXCLUDE_USER | HYPERVISOR | 2 << 15
    assert period[2:4] == [0x20D1, 1000]


@X86
def test_groups_are_counted_whole_or_refused():
    levels = [f"MEM_LOAD_RETIRED:{level}" for level in ("L1_HIT", "L2_HIT", "L3_HIT", "L3_MISS")]
    five = [*levels, "INST_RETIRED:ANY_P"]
    texts = [
        f"{{{','.join(levels)},page-faults}}:u",
        f"{{{','.join(five)}}}",
        ",".join(five),
        f"{{{','.join(levels[:3])}}},{{{','.join(five[3:])}}}",
    ]
    whole, refused, apart, two = on("skl", GROUPED, texts)
    assert whole == [[f"{name}:u" for name in (*levels, "page-faults")], [4]]
    said, advice = refused.rsplit(": ", 1)
    assert said.startswith("INST_RETIRED:ANY_P: this processor's counters cannot count its whole")
    assert advice == "leave events out of the braces, or make two groups"
    assert apart == [five, [1] * 5]
    assert two == [five, [2, 3]]


@X86
def test_masks_of_two_registers_fill_both():
    (offcore,) = on("skl", EVENTS, ["OFFCORE_RESPONSE_0:DMND_DATA_RD:L3_MISS"])
    assert offcore[2] == 0x01B7
    assert offcore[4] == 0x3F84000001


@X86
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("MEM_LOAD_RETIRED", "MEM_LOAD_RETIRED needs a unit mask: :L1_HIT, :L2_HIT"),
        ("MEM_LOAD_RETIRED:L4_HIT", "its unit masks are :L1_HIT, .*; its modifiers :e, :i, :c"),
        ("INST_RETIRED:ANY_P:c=999", "invalid event attribute value"),
        ("skl::INST_RETIRD", "skl has no event 'INST_RETIRD'; did you mean INST_RETIRED"),
        ("slk::INST_RETIRED", "no processor's counters are called 'slk'; did you mean skl"),
        ("MEM_LOAD_RETRED:L3_MISS", "no event .* here; did you mean MEM_LOAD_RETIRED"),
        ("cycles:c=3", "no event 'cycles:c=3' here"),
    ],
)
def test_what_is_wrong_is_said_with_what_there_is(text, said):
    import re  # noqa: PLC0415 - this test alone

    (message,) = on("skl", EVENTS, [text])
    assert isinstance(message, str)
    assert re.search(said, message), message


@X86
def test_the_kernels_own_names_come_first():
    (cycles, switches) = on("skl", EVENTS, ["cycles", "sched:sched_switch"])
    assert cycles[1:3] == [abi.PERF_TYPE_HARDWARE, abi.PERF_COUNT_HW_CPU_CYCLES]
    assert isinstance(switches, str) or switches[1] == abi.PERF_TYPE_TRACEPOINT


@X86
def test_events_are_listed_with_each_unit_mask():
    here, all_of_kind = on("skl", LISTED, ["mem_load_retired", "vendor event"])
    names = [name for name, _ in here]
    assert {f"skl::MEM_LOAD_RETIRED:{mask}" for mask in ("L1_HIT", "L3_MISS")} <= set(names)
    assert len(all_of_kind) > 200
    assert all(name.startswith("skl::") for name, _ in all_of_kind)


@X86
def test_events_of_another_processor_are_listed_by_its_name_and_not_opened():
    found = [event for event in list_events("core::L2_LINES_IN")[0] if event.kind == "vendor event"]
    assert "core::L2_LINES_IN:SELF" in [event.name for event in found]
    assert all(event.description.endswith("; needs Intel Core") for event in found)
    with pytest.raises(UsageError, match="this machine has no Intel Core; it has"):
        parse_events("core::L2_LINES_IN:SELF")


def test_what_is_listed_can_be_asked_for():
    for event in list_events("vendor event")[0]:
        (chosen,) = parse_events(event.name)
        assert chosen.attr.type >= abi.PERF_TYPE_RAW, event.name


@pytest.mark.parametrize(("pattern", "listed"), [("", ["CYCLES"]), ("rapl::", ["ENERGY"])])
def test_a_unit_that_the_kernel_lacks_is_listed_by_its_name_only(monkeypatch, pattern, listed):
    core = vendor_events.VendorUnit("core", "A Core", True, 4, 0, 1)
    power = vendor_events.VendorUnit("rapl", "Its Power", True, 1, 0, 2)
    names = {core: "CYCLES", power: "ENERGY"}

    class Library:
        units = (core, power)

        def events(self, unit):
            yield vendor_events.VendorEvent(names[unit], "", (("ALL", ""),), ())

        def encode(self, text):
            if text != "core::CYCLES:ALL":
                raise vendor_events.EncodingError(
                    vendor_events.NOT_SUPPORTED, "event not supported"
                )
            return vendor_events.EventAttr()

    monkeypatch.setattr(vendor_events, "library", Library)
    assert [event.name for _unit, event in listed_events(pattern)] == listed


def test_a_unit_outside_of_the_cores_counts_on_its_own_cpus(tmp_path, monkeypatch):
    (tmp_path / "uncore_imc").mkdir()
    (tmp_path / "uncore_imc/type").write_text("21\n")
    (tmp_path / "uncore_imc/cpumask").write_text("0,8\n")
    for function in ("pmu_names", "pmu_type", "pmu_cpus"):
        of_root = getattr(pmus, function)
        monkeypatch.setattr(pmus, function, lambda *a, f=of_root: f(*a, root=str(tmp_path)))

    class Uncore:
        def encode(self, _text):
            return vendor_events.EventAttr(type=21, config=0x304, flags=abi.FLAG_EXCLUDE_GUEST)

    monkeypatch.setattr(vendor_events, "library", Uncore)
    event = vendor_event("UNC_M_CAS_COUNT:RD")
    assert event.cpus == b"0,8"
    assert not event.attr.flags
    assert vendor_event("UNC_M_CAS_COUNT:RD:mg=1").attr.flags == abi.FLAG_EXCLUDE_GUEST


def test_without_the_library_it_is_said_what_installs_it(monkeypatch):
    load = ctypes.CDLL

    def not_there(name, **options):
        if name is None:  # the C library, which mounts tracefs if nobody has
            return load(name, **options)
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", not_there)
    monkeypatch.setattr(vendor_events, "library", vendor_events.library.__wrapped__)
    for text in ("skl::INST_RETIRED", "MEM_LOAD_RETIRED:L3_MISS"):
        with pytest.raises(UsageError, match="apt install libpfm4"):
            parse_events(text)
    with pytest.raises(UsageError, match=r"see prospect list$"):
        parse_events("nothing_like_it")
    found, limits = list_events("skl::")
    assert not found
    assert "apt install libpfm4" in limits[0]

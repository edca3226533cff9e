"""What is typed behind --event, against a machine of known units, tracepoints and files."""

from __future__ import annotations

import functools
import os
from unittest.mock import Mock

import pytest

from prospect.abi import constants as abi
from prospect.capture.events import event_parsing, pmus, tracepoints
from prospect.capture.events.event_parsing import parse_events
from prospect.errors import CaptureError, UsageError

KERNEL_AND_HV = abi.FLAG_EXCLUDE_KERNEL | abi.FLAG_EXCLUDE_HV
FORMATS = {
    "event": "config:0-7,32-35",
    "umask": "config:8-15",
    "edge": "config:18",
    "ldlat": "config1:0-15",
}
EVENTS = {
    "loads": "event=0xcd,umask=0x1,ldlat=3",
    "energy": "event=0x02",
    "energy.scale": "2.5e-1",
    "energy.unit": "Joules",
}


@pytest.fixture
def devices(tmp_path, monkeypatch):
    """Stand a unit of a core and one outside of the cores in for those of this machine."""
    for unit, number in (("cpu", 4), ("power", 11), ("uprobe", 8)):
        (tmp_path / unit / "format").mkdir(parents=True)
        (tmp_path / unit / "events").mkdir()
        (tmp_path / unit / "type").write_text(f"{number}\n")
    for name, text in FORMATS.items():
        (tmp_path / "cpu/format" / name).write_text(f"{text}\n")
    (tmp_path / "cpu/events/loads").write_text(EVENTS["loads"])
    (tmp_path / "power/format/event").write_text("config:0-7\n")
    for name in ("energy", "energy.scale", "energy.unit"):
        (tmp_path / "power/events" / name).write_text(EVENTS[name] + "\n")
    (tmp_path / "power/cpumask").write_text("0,2\n")
    (tmp_path / "uprobe/format/retprobe").write_text("config:0\n")
    for name in ("pmu_names", "pmu_type", "pmu_cpus", "pmu_parameters", "pmu_events"):
        found = functools.partial(getattr(pmus, name), root=str(tmp_path))
        monkeypatch.setattr(pmus, name, found)
    return tmp_path


@pytest.fixture
def points(tmp_path, monkeypatch):
    """Stand tracefs in."""
    point = tmp_path / "tracing/events/sched/sched_switch"
    point.mkdir(parents=True)
    (point / "id").write_text("372\n")
    (point / "format").write_text(
        "name: sched_switch\nID: 372\nformat:\n"
        "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
        "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
    )
    monkeypatch.setattr(tracepoints, "_MOUNTS", (str(tmp_path / "tracing"),))


def kinds(text):
    return [(event.attr.type, event.attr.config) for event in parse_events(text)]


def test_names_of_the_tables():
    assert kinds("faults,cycles,L1-dcache-load-misses") == [(1, 2), (0, 0), (3, 0x10000)]
    assert kinds("dTLB-stores") == [(3, 3 | 1 << 8)]
    assert [event.name for event in parse_events("cs,cpu-cycles:u")] == ["cs", "cpu-cycles:u"]


def test_modifiers_exclude_whom_they_do_not_name():
    user, kernel, both = parse_events("cycles:u,cycles:k,cycles:ukpp")
    assert user.attr.flags == KERNEL_AND_HV
    assert kernel.attr.flags == abi.FLAG_EXCLUDE_USER | abi.FLAG_EXCLUDE_HV
    assert both.attr.flags == abi.FLAG_EXCLUDE_HV | 2 << 15


def test_groups_are_numbered_and_share_modifiers():
    events = parse_events("{cycles,instructions}:u,faults,{branches}")
    assert [event.group for event in events] == [0, 0, -1, 1]
    assert [bool(event.attr.flags) for event in events] == [True, True, False, False]


def test_raw_events():
    assert kinds("r01c0,r0:u") == [(4, 0x1C0), (4, 0)]


def test_parameters_go_to_the_bits_that_the_kernel_says(devices):
    (event,) = parse_events("cpu/event=0x1cd,umask=0x2,ldlat=100,edge/u")
    assert event.attr.config == 0xCD | 1 << 32 | 0x2 << 8 | 1 << 18
    assert event.attr.config1 == 100
    assert event.attr.flags == KERNEL_AND_HV


def test_an_event_of_a_unit_by_name_with_a_change(devices):
    (event,) = parse_events("cpu/loads,edge,name=mine,freq=99/")
    assert event.attr.config == 0xCD | 1 << 8 | 1 << 18
    assert (event.name, event.attr.sample_period) == ("mine", 99)
    assert event.attr.flags & abi.FLAG_FREQ
    assert parse_events("loads")[0].attr.config == 0xCD | 1 << 8


def test_a_unit_outside_of_the_cores_has_cpus_and_a_scale(devices):
    (event,) = parse_events("power/energy/")
    assert (event.cpus, event.unit, event.scale) == (b"0,2", "Joules", 0.25)


def test_tracepoints_and_filters(points):
    text = """sched:sched_switch/filter="prev_comm ~ '*/x,y'",period=10/,sched:sched_switch:k"""
    first, second = parse_events(text)
    assert (first.attr.type, first.attr.config, first.attr.sample_period) == (2, 372, 10)
    assert first.filter == "prev_comm ~ '*/x,y'"
    assert second.attr.flags == abi.FLAG_EXCLUDE_USER | abi.FLAG_EXCLUDE_HV
    (field,) = tracepoints.tracepoint_fields("sched", "sched_switch")
    assert field == ("char prev_comm[16]", 16)


def test_probes(devices, tmp_path):
    program = tmp_path / "program"
    program.write_bytes(b"no ELF file")
    first, second = parse_events(f"{program}+0x10,{program}+16%return")
    assert (first.attr.type, first.attr.config, first.attr.config2) == (8, 0, 16)
    assert second.attr.config == 1
    assert first.path == os.fsencode(os.path.realpath(program))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cycels", "no event 'cycels' here; did you mean cycles?"),
        ("cpi/event=1/", "no unit 'cpi' here"),
        ("sched:sched_swich", "did you mean sched:sched_switch?"),
        ("cpu", "give cpu/EVENT/"),
        ("cpu/evnt=1/", "no parameter 'evnt', there are edge, event"),
        ("cpu/umask=0x100/", "umask is at most 0xff"),
        ("cpu/event=x/", "event needs a number, not 'x'"),
        ("cycles/period=0/", "period is at least 1"),
        ("cycles/filter=x/", "no parameter 'filter'"),
        ("cycles:pppp", "p at most 3 times"),
        ("cycles/period=1", "do not end with a slash"),
        ("cycles,", "is not complete"),
        ("{cycles", "is not complete"),
        ("cycles}", "after cycles is not understood"),
        ("", "give events"),
        ("/no/such/file:main", "No such file"),
        ("/dev/null:main", "is not a regular file"),
        ("/dev/null", "give FILE:FUNCTION or FILE+OFFSET"),
    ],
)
def test_what_cannot_be_meant_is_answered(text, says, devices, points):
    with pytest.raises(UsageError) as caught:
        parse_events(text)
    assert says in str(caught.value)


def test_without_tracefs_and_privilege_it_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(tracepoints, "_MOUNTS", (str(tmp_path / "nowhere"),))
    monkeypatch.setattr(tracepoints, "_own_mount", Mock(side_effect=PermissionError))
    with pytest.raises(CaptureError, match="mount -t tracefs"):
        parse_events("sched:sched_switch")


def test_bits_that_are_no_bits_are_refused(devices):
    (devices / "cpu/format/event").write_text("config:0-64\n")
    with pytest.raises(CaptureError, match="not a list of bits"):
        parse_events("cpu/event=1/")


def test_a_fifo_is_not_waited_for(devices, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UsageError, match="not a regular file"):
        parse_events(f"{tmp_path / 'fifo'}:main")


def test_every_name_of_the_tables_is_found():
    for event in event_parsing.named_events():
        for name in event.names:
            assert kinds(name) == [(event.type, event.config)]

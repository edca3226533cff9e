"""Control groups that are there before events begin: where they are looked for, their records."""

from __future__ import annotations

import pytest

from builders import perfdata
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import RecordBlock
from prospect.capture.machine import surroundings
from prospect.capture.machine.surroundings import control_group_records
from prospect.events.decode import decode

V2 = "35 28 0:29 / {} rw,relatime shared:7 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "36 28 0:30 / {} rw,relatime - cgroup cgroup rw,cpuset,perf_event\n"
OTHER = "37 28 0:31 / {} rw,relatime - cgroup cgroup rw,memory\n"


@pytest.fixture
def groups(tmp_path):
    (tmp_path / "v2" / "system.slice" / "a.service").mkdir(parents=True)
    (tmp_path / "v2" / "init.scope").mkdir()
    (tmp_path / "v2" / "cgroup.procs").touch()
    (tmp_path / "v1" / "only").mkdir(parents=True)
    return tmp_path


def paths_of(groups, *lines):
    table = groups / "mountinfo"
    table.write_text("".join(lines))
    kinds = perfdata.USUAL | perfdata.CGROUP
    events = [EventDescription(EventAttr(sample_type=kinds, flags=1 << 18), (7,))]
    records = b"".join(control_group_records(str(table)))
    return decode([RecordBlock(memoryview(records))], events).control_groups


def test_each_group_has_a_record_with_the_number_of_its_directory(groups):
    found = paths_of(groups, V2.format(groups / "v2"))
    assert sorted(found.values()) == [
        b"/",
        b"/init.scope",
        b"/system.slice",
        b"/system.slice/a.service",
    ]
    number = (groups / "v2" / "system.slice" / "a.service").stat().st_ino
    assert found[number] == b"/system.slice/a.service"


def test_the_hierarchy_is_that_of_perf_events(groups):
    lines = V2.format(groups / "v2"), OTHER.format(groups), V1.format(groups / "v1")
    assert sorted(paths_of(groups, *lines).values()) == [b"/", b"/only"]
    assert paths_of(groups, OTHER.format(groups)) == {}


def test_very_many_groups_come_in_portions_and_are_bounded(groups, monkeypatch):
    monkeypatch.setattr(surroundings, "_PORTION", 2)
    table = groups / "mountinfo"
    table.write_text(V2.format(groups / "v2"))
    assert len([one for one in control_group_records(str(table)) if one]) == 2
    monkeypatch.setattr(surroundings, "MOST_CONTROL_GROUPS", 3)
    assert len(paths_of(groups, V2.format(groups / "v2"))) == 3

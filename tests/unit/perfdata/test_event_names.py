"""Names of events that the recording does not name, as perf prints them."""

from __future__ import annotations

import pytest

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr
from prospect.perfdata.metadata import event_name

KERNEL_AND_HV = abi.FLAG_EXCLUDE_KERNEL | abi.FLAG_EXCLUDE_HV


@pytest.mark.parametrize(
    ("attr", "name"),
    [
        (EventAttr(abi.PERF_TYPE_SOFTWARE, 0), "cpu-clock"),
        (EventAttr(abi.PERF_TYPE_SOFTWARE, 1), "task-clock"),
        (EventAttr(abi.PERF_TYPE_SOFTWARE, 9), "dummy"),
        (EventAttr(abi.PERF_TYPE_SOFTWARE, 99), "raw 0x63"),
        (EventAttr(abi.PERF_TYPE_HARDWARE, 0), "cycles"),
        (EventAttr(abi.PERF_TYPE_HARDWARE, 1), "instructions"),
        (EventAttr(abi.PERF_TYPE_HARDWARE, 9), "ref-cycles"),
        (EventAttr(abi.PERF_TYPE_HARDWARE, 8 << 32), "cycles"),
        (EventAttr(abi.PERF_TYPE_HW_CACHE, 0x10000), "L1-dcache-load-misses"),
        (EventAttr(abi.PERF_TYPE_HW_CACHE, 0x00102), "LLC-stores"),
        (EventAttr(abi.PERF_TYPE_HW_CACHE, 0xFFFFFF), "raw 0xffffff"),
        (EventAttr(abi.PERF_TYPE_BREAKPOINT, 0, config1=0x1234), "mem:0x1234"),
        (EventAttr(abi.PERF_TYPE_TRACEPOINT, 314), "tracepoint 314"),
        (EventAttr(abi.PERF_TYPE_RAW, 0x1C2), "raw 0x1c2"),
        (EventAttr(77, 5), "raw 0x5"),
        (EventAttr(1, 0, flags=KERNEL_AND_HV), "cpu-clock:u"),
        (EventAttr(1, 0, flags=abi.FLAG_EXCLUDE_USER), "cpu-clock:kh"),
    ],
)
def test_an_event_without_a_name_gets_perfs(attr, name):
    assert event_name(attr) == name

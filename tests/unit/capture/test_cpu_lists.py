from __future__ import annotations

import pytest

from prospect.capture.kernel.procfs import CpuWatch, parse_cpu_list
from prospect.errors import CaptureError


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        (b"0\n", (0,)),
        (b"0-3\n", (0, 1, 2, 3)),
        (b"0-1,4,6-7\n", (0, 1, 4, 6, 7)),
        (b"127-128", (127, 128)),
    ],
)
def test_kernel_lists_are_understood(text, cpus):
    assert parse_cpu_list(text) == cpus


@pytest.mark.parametrize("text", [b"", b"a", b"1-", b"-1", b"3-1", b"0,,1", b"0-99999999999"])
def test_other_text_is_refused(text):
    with pytest.raises(CaptureError, match="not a list of CPUs"):
        parse_cpu_list(text)


def test_watch_notices_a_change_once(tmp_path):
    online = tmp_path / "online"
    online.write_text("0-1\n")
    watch = CpuWatch(str(online), str(tmp_path / "none"))
    assert watch.online == (0, 1)
    assert not watch.look()
    online.write_text("0\n")
    assert watch.look()
    assert watch.online == (0,)
    assert not watch.look()
    watch.close()


def test_watch_notices_a_cpu_that_went_and_came_back_between_two_looks(tmp_path):
    online, messages = tmp_path / "online", tmp_path / "messages"
    online.write_text("0-1\n")
    messages.write_text("829\n")
    watch = CpuWatch(str(online), str(messages))
    assert not watch.look()
    messages.write_text("831\n")
    assert watch.look()
    assert watch.online == (0, 1)
    assert not watch.look()
    watch.close()


def test_machine_without_sys_is_told_what_to_do(tmp_path):
    with pytest.raises(CaptureError, match="mount /sys"):
        CpuWatch(str(tmp_path / "none"))

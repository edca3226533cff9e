"""Where another tracer's programs are loaded, the walker is not, unless it is asked for."""

from __future__ import annotations

import errno
import os

import pytest

from prospect.abi import bpf as abi
from prospect.capture.kernel import bpf
from prospect.capture.python import attaching

OTHERS = [
    (abi.BPF_PROG_TYPE_KPROBE, "others"),
    (abi.BPF_PROG_TYPE_TRACEPOINT, "sys_enter"),
]
HARMLESS = [
    (abi.BPF_PROG_TYPE_KPROBE, "prospect_calls"),
    (abi.BPF_PROG_TYPE_PERF_EVENT, "walk_python"),
    (8, "sd_devices"),
]


@pytest.mark.parametrize("other", OTHERS)
def test_it_is_not_loaded_beside_others(other, monkeypatch):
    monkeypatch.setattr(bpf, "loaded_programs", lambda: [*HARMLESS, other])
    with pytest.raises(OSError, match=os.strerror(errno.EBUSY)):
        attaching.attach_walker({}, (), beside_others=False)


@pytest.mark.parametrize(("loaded", "is_asked_for"), [(HARMLESS, False), (OTHERS, True)])
def test_else_it_is(loaded, is_asked_for, monkeypatch):
    monkeypatch.setattr(bpf, "loaded_programs", lambda: loaded)
    monkeypatch.setattr(attaching, "BTF_FILE", os.devnull)
    with pytest.raises(ValueError, match="types are cut"):
        attaching.attach_walker({}, (), beside_others=is_asked_for)

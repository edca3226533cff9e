"""Why Python's frames cannot be read here, in a line that says what would change it."""

from __future__ import annotations

import errno
import os

import pytest

from prospect.capture.runtimes import attaching


@pytest.mark.parametrize(
    ("error", "lockdown", "words"),
    [
        (OSError(errno.EPERM, ""), b"", "CAP_BPF and CAP_PERFMON"),
        (OSError(errno.EINVAL, ""), b"none integrity [confidentiality]", "lockdown=integrity"),
        (OSError(errno.EINVAL, "Invalid argument"), b"[none]", "Invalid argument"),
        (ValueError("the kernel's types have no mm"), b"", "have no mm"),
    ],
)
def test_what_the_kernel_refuses_is_said(error, lockdown, words, monkeypatch):
    def refuse(*_):
        raise error

    monkeypatch.setattr(attaching, "attach_walker", refuse)
    monkeypatch.setattr(attaching, "BTF_FILE", os.devnull)
    monkeypatch.setattr(attaching, "read_if_there", lambda _: lockdown)
    monkeypatch.setattr(attaching, "_machine", lambda: "x86_64")
    assert words in attaching.obstacle()


def test_a_kernel_without_types_and_another_machine_are_known(monkeypatch):
    monkeypatch.setattr(attaching, "_machine", lambda: "x86_64")
    monkeypatch.setattr(attaching, "BTF_FILE", "/no/such/file")
    assert "CONFIG_DEBUG_INFO_BTF" in attaching.obstacle()
    monkeypatch.setattr(attaching, "_machine", lambda: "aarch64")
    assert "aarch64" in attaching.obstacle()

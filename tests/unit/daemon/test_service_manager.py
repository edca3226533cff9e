"""What a service manager hears."""

from __future__ import annotations

import os
import socket

import pytest

from prospect.daemon.loop import READY, ServiceManager


def test_it_hears_words(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(5)
        ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")}).notify(READY, "STATUS=x")
        assert heard.recv(100) == b"READY=1\nSTATUS=x"


@pytest.mark.parametrize("address", ["", "relative", "/nowhere/at/all"])
def test_without_one_nothing_happens(address):
    ServiceManager({"NOTIFY_SOCKET": address}).notify(READY)


@pytest.mark.parametrize(
    ("environment", "every_s"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "x"}, None),
        ({}, None),
    ],
)
def test_it_says_how_often_it_wants_to(environment, every_s):
    assert ServiceManager(environment).alive_every_s == every_s

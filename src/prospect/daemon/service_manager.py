"""Notifications to a service manager: the daemon is ready, alive, ending.

Source: sd_notify(3), sd_watchdog_enabled(3): datagrams of assignments to the socket that
NOTIFY_SOCKET names.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

READY, RELOADING, STOPPING, ALIVE = "READY=1", "RELOADING=1", "STOPPING=1", "WATCHDOG=1"


class ServiceManager:
    """Who started the daemon, if that wants to hear of it.

    Attributes:
        alive_every_s: how often it wants to hear that the daemon is alive; None for never.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]
        elif not self._address.startswith("/"):
            self._address = ""
        period, owner = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
        is_ours = not owner or owner == str(os.getpid())
        has_period = period.isascii() and period.isdigit() and int(period) > 0
        self.alive_every_s = int(period) / 2e6 if has_period and is_ours else None

    def notify(self, *words: str) -> None:
        """Send it `words`, if it listens."""
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.settimeout(0)
            out.sendto("\n".join(words).encode(), self._address)

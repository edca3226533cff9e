"""The rights that a running daemon keeps, with reasons, and the systemd unit that grants them.

Source: capabilities(7).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prospect.capture.kernel.own_process import keep_only, last_capability
from prospect.daemon.daemon_limits import UNIT_CPUS, UNIT_MEMORY
from prospect.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Sequence

_SYS_ADMIN, _PERFMON = 21, 38
# The purpose of each. A CPU that comes online and new settings need the same rights as the start.
KEPT = {
    "CAP_DAC_READ_SEARCH": 2,  # read names in programs and libraries
    "CAP_KILL": 5,  # end children that act with another user's rights and hang
    "CAP_SETGID": 6,  # read files in maps with the rights of the processes' users
    "CAP_SETUID": 7,
    "CAP_IPC_LOCK": 14,  # map the rings of many CPUs
    "CAP_SYS_PTRACE": 19,  # read the mappings of processes
    "CAP_SYS_NICE": 23,  # find Python's frames in time on a busy machine
    "CAP_LEASE": 28,  # notice files that change while they are read
    "CAP_SYSLOG": 34,  # read addresses of kernel functions
    "CAP_PERFMON": _PERFMON,  # sample the whole system
    "CAP_BPF": 39,  # read Python's frames
    "CAP_CHECKPOINT_RESTORE": 40,  # open mapped files that are deleted
}


def kept_names() -> list[str]:
    """Return the names of the capabilities that a daemon keeps on this kernel."""
    # Before Linux 5.8, one capability granted the newer ones of these.
    return [*KEPT, *(["CAP_SYS_ADMIN"] if _is_old() else [])]


def keep_what_is_needed() -> None:
    """Give up all capabilities that the daemon does not need; before any thread starts.

    Raises:
        CaptureError: the kernel refused.
    """
    _keep({*KEPT.values(), *([_SYS_ADMIN] if _is_old() else [])})


def keep_nothing() -> None:
    """Give up all capabilities, in a child that only writes its own files.

    Raises:
        CaptureError: the kernel refused.
    """
    _keep(set())


def _is_old() -> bool:
    return last_capability() < _PERFMON


def _keep(kept: set[int]) -> None:
    try:
        keep_only(kept)
    except OSError as error:
        raise CaptureError(f"rights cannot be given up: {error.strerror}") from None


# The systemd unit that runs a daemon permits no more than the daemon does.
#
# Source: systemd.service(5), systemd.exec(5), systemd.resource-control(5). Directives that hide
# facts from a profiler are missing: ProtectKernelTunables and ProtectKernelLogs hide the addresses
# of kernel functions, ProtectKernelModules those of modules, ProtectProc other processes.

USUAL_STORE = "/var/lib/prospect"
_UNIT = """\
[Unit]
Description=Prospect, profiling the whole system

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
WatchdogSec=60
Restart=on-failure
RestartSec=10
Nice=-5
UMask=0077
{places}Environment=XDG_CACHE_HOME=/var/cache
CacheDirectory=prospect
CacheDirectoryMode=0700
CPUQuota={cpus}%
MemoryMax={memory}
OOMPolicy=continue
TasksMax=64
LimitNOFILE=65536
CapabilityBoundingSet={capabilities}
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
DevicePolicy=closed
ProtectHostname=yes
ProtectClock=yes
ProtectControlGroups=yes
LockPersonality=yes
RestrictAddressFamilies={families}
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service perf_event_open bpf
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"""


def unit_text(  # noqa: PLR0913 - all that a unit depends on
    command: Sequence[str],
    store: str,
    metrics: str,
    *,
    sent_to: str = "",
    has_network: bool = False,
    state: str = "prospect",
) -> str:
    """Return a unit.

    Args:
        command: the daemon's command line; the first word is the path of a program.
        store: the directory of its store, "" for the usual one.
        metrics: the path of its file of metrics, "" for none.
        sent_to: a directory to which finished hours are sent, "" for none.
        has_network: whether it talks to other machines.
        state: the directory below /var/lib that has the usual store, or is it.
    """
    places = ""
    written = [os.path.dirname(metrics)] if metrics else []
    written += [sent_to] if sent_to else []
    if store and os.path.normpath(store) != USUAL_STORE:
        written.append(store)
    else:
        places = f"StateDirectory={state}\nStateDirectoryMode=0700\n"
    if written:
        places += f"ReadWritePaths={' '.join(_quoted(path) for path in written)}\n"
    # A $ in arguments would begin a variable; the program's path has none.
    program, *words = map(_quoted, command)
    return _UNIT.format(
        command=" ".join([program, *(word.replace("$", "$$") for word in words)]),
        places=places,
        memory=UNIT_MEMORY,
        cpus=UNIT_CPUS,
        families="AF_UNIX AF_INET AF_INET6" if has_network else "AF_UNIX",
        capabilities=" ".join(kept_names()),
    )


def _quoted(word: str) -> str:
    r"""Return a word as systemd reads it: ``%`` begins a specifier, ``\`` an escape.

    Source: systemd.syntax(7), "Quoting"; systemd.unit(5), "Specifiers".
    """
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return text if text and not set(text) & set(" \t;'") and text == word else f'"{text}"'

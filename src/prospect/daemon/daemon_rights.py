"""The rights that a daemon keeps once it runs, and why; all others it gives up.

Source: capabilities(7).
"""

from __future__ import annotations

from prospect.capture.kernel.capabilities import keep_only, last_capability
from prospect.errors import CaptureError

_SYS_ADMIN, _PERFMON = 21, 38
# What each is for; a CPU that comes online and new settings need what the start needed.
KEPT = {
    "CAP_DAC_READ_SEARCH": 2,  # names in programs and libraries, whoever may read these
    "CAP_KILL": 5,  # children that act with another user's rights and hang
    "CAP_SETGID": 6,  # files that processes name are read with their owner's rights
    "CAP_SETUID": 7,
    "CAP_IPC_LOCK": 14,  # the rings of many CPUs
    "CAP_SYS_PTRACE": 19,  # what processes have mapped
    "CAP_SYS_NICE": 23,  # Python's frames are found before a busy machine goes on
    "CAP_LEASE": 28,  # files that change while they are read
    "CAP_SYSLOG": 34,  # addresses of kernel functions
    "CAP_PERFMON": _PERFMON,  # sampling the whole system
    "CAP_BPF": 39,  # Python's frames
    "CAP_CHECKPOINT_RESTORE": 40,  # files that processes have mapped and are deleted
}


def kept_names() -> list[str]:
    """Return the names of the capabilities that a daemon keeps on this kernel."""
    # Before Linux 5.8 one capability was for all of that.
    return [*KEPT, *(["CAP_SYS_ADMIN"] if _is_old() else [])]


def keep_what_is_needed() -> None:
    """Give up what sampling for months does not need; before any thread is started.

    Raises:
        CaptureError: the kernel refused.
    """
    _keep({*KEPT.values(), *([_SYS_ADMIN] if _is_old() else [])})


def keep_nothing() -> None:
    """Give up all rights but those of the user; of a child that only writes files of its own.

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

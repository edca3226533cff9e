"""Whether this machine lets this user read Python's frames, by trying what a recording would do."""

from __future__ import annotations

import errno
import os

from prospect.capture.kernel.procfs import read_if_there
from prospect.capture.python.attaching import attach_walker
from prospect.capture.python.kernel_types import BTF_FILE

_LOCKDOWN = "/sys/kernel/security/lockdown"
NEEDS_RIGHTS = "needs root, or CAP_BPF and CAP_PERFMON, for eBPF"


def obstacle() -> str:
    """Return why they cannot be read, and what would change it; "" where they can."""
    if (machine := _machine()) != "x86_64":
        return f"of x86-64 programs only, not on {machine}"
    if not os.path.exists(BTF_FILE):
        return f"this kernel has no {BTF_FILE}: it takes one built with CONFIG_DEBUG_INFO_BTF"
    try:
        attach_walker({}, ()).close()
    except ValueError as error:
        return str(error)
    except OSError as error:
        return _refusal(error)
    return ""


def _refusal(error: OSError) -> str:
    if error.errno in (errno.EPERM, errno.EACCES):
        return NEEDS_RIGHTS
    if b"[confidentiality]" in read_if_there(_LOCKDOWN):
        return "the kernel is locked down (confidentiality): boot with lockdown=integrity"
    return f"the kernel refuses the program: {error.strerror}"


def _machine() -> str:
    return os.uname().machine

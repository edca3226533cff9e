"""Drops attributes that a kernel does not know from an event, and says what the recording loses.

Defined by: ``kernel/events/core.c`` (Linux 6.18), perf_copy_attr() for unknown flags;
``kernel/events/callchain.c``, get_callchain_buffers() for chains that it cannot give.
"""

from __future__ import annotations

import errno
import os

from prospect.abi import constants as abi
from prospect.capture.kernel import perf_syscalls
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.abi.attr import EventAttr


class _Step(NamedTuple):
    """A feature that a kernel may lack: errnos of refusals, a sentence on the loss, attributes."""

    refusals: tuple[int, ...]
    limit: str
    flags: int = 0
    sample_type: int = 0
    read_format: int = 0

    def leave_out(self, attr: EventAttr) -> EventAttr:
        """Return the attributes without the feature."""
        return attr._replace(
            flags=attr.flags & ~self.flags,
            sample_type=attr.sample_type & ~self.sample_type,
            read_format=attr.read_format & ~self.read_format,
        )


_UNKNOWN_TO_KERNEL = (errno.EINVAL,)
# Linux 5.7; recent kernels lack it if built without CONFIG_CGROUP_PERF.
_CONTROL_GROUPS = _Step(
    _UNKNOWN_TO_KERNEL, "", flags=abi.FLAG_CGROUP, sample_type=abi.PERF_SAMPLE_CGROUP
)
# The newest features come first. Call chains come last: all kernels know them, but may have no
# memory or no unwinder for them.
_STEPS = (
    _Step(
        _UNKNOWN_TO_KERNEL,
        "This kernel does not count lost samples per event (Linux 6.0 does): losses at the very"
        " end of the run may be missing from the accounting.",
        read_format=abi.PERF_FORMAT_LOST,
    ),
    _Step(_UNKNOWN_TO_KERNEL, "", flags=abi.FLAG_TEXT_POKE),
    _CONTROL_GROUPS,
    _Step(
        _UNKNOWN_TO_KERNEL,
        "This kernel does not announce BPF programs (Linux 5.1 does): samples in those that came"
        " or went during the run may have no name.",
        flags=abi.FLAG_KSYMBOL | abi.FLAG_BPF_EVENT,
    ),
    _Step(
        (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP),
        "This kernel copies no user stacks: callers in user space come from frame pointers, if "
        "any.",
        sample_type=abi.PERF_SAMPLE_REGS_USER | abi.PERF_SAMPLE_STACK_USER,
    ),
    _Step(
        (errno.EINVAL, errno.ENOMEM, errno.EOVERFLOW, errno.EOPNOTSUPP),
        "This kernel gives no call chains: kernel time cannot be shown by entry reason (system"
        " call, page fault, interrupt).",
        flags=abi.FLAG_EXCLUDE_CALLCHAIN_USER | abi.FLAG_EXCLUDE_CALLCHAIN_KERNEL,
        sample_type=abi.PERF_SAMPLE_CALLCHAIN,
    ),
)


def fit_to_kernel(attr: EventAttr, pid: int, cpu: int) -> tuple[EventAttr, tuple[str, ...]]:
    """Drop features until the event opens.

    Returns:
        The attributes that this kernel accepts, and a sentence for each loss.

    Raises:
        OSError: it refuses the event itself.
    """
    without = _CONTROL_GROUPS.leave_out(attr)
    if without != attr:
        try:
            os.close(perf_syscalls.perf_event_open(without.pack(), pid, cpu))
        except OSError:
            pass  # other attributes may be unknown too, or the event is refused for another reason
        else:
            return without, ()
    limits: list[str] = []
    while True:
        try:
            os.close(perf_syscalls.perf_event_open(attr.pack(), pid, cpu))
        except OSError as error:
            possible = (step for step in _STEPS if error.errno in step.refusals)
            step = next((step for step in possible if step.leave_out(attr) != attr), None)
            if step is None:
                raise
        else:
            return attr, tuple(limits)
        attr = step.leave_out(attr)
        if step.limit:
            limits.append(step.limit)

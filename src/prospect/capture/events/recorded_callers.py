"""The modes of ``--call-graph``, and the attributes by which the kernel records callers.

Defined by: perf_event_open(2), "sample_regs_user", "sample_stack_user", "branch_sample_type";
perf_reg_validate() and perf_sample_ustack_size() in ``kernel/events/core.c`` (Linux 6.18) for the
allowed registers and sizes.
"""

from __future__ import annotations

import os

from prospect.abi import constants as abi
from prospect.capture.capture_limits import MOST_DEFAULT_BYTES
from prospect.capture.kernel.procfs import read_setting
from prospect.errors import UsageError
from prospect.light import bits_set
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.abi.attr import EventAttr

KERNEL_CHAINS = "kernel"
FRAME_POINTERS = "fp"
STACK_COPIES = "dwarf"
BRANCH_STACK = "lbr"
BY_IMAGE = "auto"
NO_CALLERS = "none"
MODES = (FRAME_POINTERS, STACK_COPIES, BRANCH_STACK, BY_IMAGE)
_COPYING = (STACK_COPIES, BY_IMAGE)

DEFAULT_STACK_BYTES = 8192
# A record's size is a u16: the kernel refuses copies of 65528 bytes or more.
_MOST_STACK_BYTES = 65520
_LEAST_STACK_BYTES = 8

# General registers as PERF_REG_* bits: on x86-64 ax to ip, flags and r8 to r15, without the segment
# registers; on arm64 x0 to x30, sp and pc.
_REGISTERS = {"x86_64": 0xFF0FFF, "aarch64": (1 << 33) - 1}
# The registers that unwinding needs: bx, bp, sp, ip, r10; x29, lr, sp, pc.
UNWOUND_REGISTERS = {"x86_64": 0x4_01C2, "aarch64": 0xF << 29}
# Chains of frame pointers lack the caller of a leaf, which on arm64 is in lr (x30). The frame
# pointer (x29) and sp show whether the leaf has its own frame record. The chain has pc.
_LEAF_REGISTERS = {"aarch64": 0b111 << 29}
# Smaller copies lack most callers.
_LEAST_DEFAULT_BYTES = 1024
# The ring that an ordinary user may lock has room for about a second of samples with such copies.
_UNPRIVILEGED_BYTES = 2048
_FEWER = (
    "Copies of stacks are {} bytes instead of {}: more would be over {} MB a second on {} CPUs"
    " (--call-graph auto,BYTES)."
)
_NONE = (
    "Callers are found by frame pointers alone: copies of stacks would be over {} MB a second on {}"
    " CPUs (--call-graph auto)."
)
_MAX_STACK = "/proc/sys/kernel/perf_event_max_stack"
_CALL_STACK = (
    abi.PERF_SAMPLE_BRANCH_USER
    | abi.PERF_SAMPLE_BRANCH_CALL_STACK
    | abi.PERF_SAMPLE_BRANCH_NO_CYCLES
    | abi.PERF_SAMPLE_BRANCH_NO_FLAGS
)


class CallGraph(NamedTuple):
    """The recorded callers.

    Attributes:
        mode: one of `MODES`; KERNEL_CHAINS for those of kernel code only, which show its entry
            reasons.
        stack_bytes: of the user's stack that a sample copies, 0 in modes that copy none.
    """

    mode: str = KERNEL_CHAINS
    stack_bytes: int = 0

    @property
    def needs_hardware(self) -> bool:
        """Whether it needs a hardware counter."""
        return self.mode == BRANCH_STACK


KERNEL_CALLERS = CallGraph()


def parse_call_graph(text: str) -> CallGraph:
    """Parse ``MODE`` or ``MODE,BYTES``; an empty text means the kernel's chains only.

    Raises:
        UsageError: there is no such mode, or no such size.
    """
    mode, comma, size = text.partition(",")
    if text in ("", NO_CALLERS):
        return KERNEL_CALLERS
    if mode not in MODES:
        from prospect.spelling import suggestion  # noqa: PLC0415 - only on the way to an error

        raise UsageError(
            f"give none or one of {', '.join(MODES)}, the copying ones with a size: dwarf,16384"
            + suggestion(mode, (*MODES, NO_CALLERS))
        )
    if mode not in _COPYING:
        if comma:
            raise UsageError(f"{mode} copies no stacks: give it without a size")
        return CallGraph(mode)
    if not comma:
        return CallGraph(mode, DEFAULT_STACK_BYTES)
    if not (size.isascii() and size.isdigit() and len(size) < 10):
        raise UsageError("give the size of stack copies in bytes, such as 16384")
    stack_bytes = -(-int(size) // 8) * 8
    if not _LEAST_STACK_BYTES <= stack_bytes <= _MOST_STACK_BYTES:
        raise UsageError(f"give a size of stack copies from 8 to {_MOST_STACK_BYTES} bytes")
    return CallGraph(mode, stack_bytes)


def default_callers(rate_hz: int, cpus: int, *, is_system: bool) -> tuple[CallGraph, str]:
    """Return the default callers in samples of COMMAND, and a sentence on missing ones.

    They are frame pointers, with copies of stacks as large as MOST_DEFAULT_BYTES allows. The
    sentence is "" if the copies have the usual size.

    Args:
        rate_hz: samples a second of each CPU.
        is_system: whether every process is sampled, which takes privileges.
    """
    if os.uname().machine not in _REGISTERS:
        return CallGraph(FRAME_POINTERS), ""
    usual = DEFAULT_STACK_BYTES if is_system else _UNPRIVILEGED_BYTES
    possible = MOST_DEFAULT_BYTES // (rate_hz * cpus) // 8 * 8
    most = MOST_DEFAULT_BYTES >> 20
    if possible < _LEAST_DEFAULT_BYTES:
        return CallGraph(FRAME_POINTERS), _NONE.format(most, cpus)
    if possible < usual:
        return CallGraph(BY_IMAGE, possible), _FEWER.format(possible, usual, most, cpus)
    return CallGraph(BY_IMAGE, usual), ""


def with_callers(attr: EventAttr, graph: CallGraph) -> EventAttr:
    """Return an event's attributes with the changes that record callers.

    Raises:
        UsageError: Prospect knows no registers of this machine.
    """
    sees_kernel = not attr.flags & abi.FLAG_EXCLUDE_KERNEL
    wants_chain = graph.mode in (FRAME_POINTERS, BY_IMAGE)
    sample_type, flags, registers, branches = attr.sample_type, attr.flags, 0, 0
    if sees_kernel or graph.mode != KERNEL_CHAINS:
        # The kernel's part shows why the CPU was there. Readers look for chains only in samples
        # that have the field, so samples that are unwound later have an empty chain.
        sample_type |= abi.PERF_SAMPLE_CALLCHAIN
        flags |= 0 if sees_kernel else abi.FLAG_EXCLUDE_CALLCHAIN_KERNEL
        flags |= 0 if wants_chain else abi.FLAG_EXCLUDE_CALLCHAIN_USER
    machine = os.uname().machine
    if graph.mode == FRAME_POINTERS and machine in _LEAF_REGISTERS:
        registers = _LEAF_REGISTERS[machine]
        sample_type |= abi.PERF_SAMPLE_REGS_USER
    if graph.stack_bytes:
        registers = _REGISTERS.get(machine, 0)
        if not registers:
            raise UsageError(
                f"stacks of {machine} are not unwound from copies: use --call-graph fp"
            )
        sample_type |= abi.PERF_SAMPLE_REGS_USER | abi.PERF_SAMPLE_STACK_USER
        # perf looks for call-frame information in mappings of data.
        flags |= abi.FLAG_MMAP_DATA
    if graph.mode == BRANCH_STACK:
        sample_type |= abi.PERF_SAMPLE_BRANCH_STACK
        branches = _CALL_STACK
    return attr._replace(
        sample_type=sample_type,
        flags=flags,
        sample_regs_user=registers,
        sample_stack_user=graph.stack_bytes,
        # The kernel's default, so that the recording shows where chains are cut.
        sample_max_stack=_most_frames() if sample_type & abi.PERF_SAMPLE_CALLCHAIN else 0,
        branch_sample_type=branches,
    )


def _most_frames() -> int:
    """Return sysctl kernel.perf_event_max_stack, the largest allowed number; 0 if unknown.

    Linux before 4.8 has neither the sysctl nor the field of the attributes.
    """
    return min(read_setting(_MAX_STACK) or 0, 0xFFFF)


def sample_bytes(attr: EventAttr) -> int:
    """Return the approximate size of a sample with these attributes in a ring."""
    kinds = attr.sample_type
    # header, identifier, ip, pid and tid, time, cpu
    size = 48
    size += 8 * bits_set(kinds & (abi.PERF_SAMPLE_PERIOD | abi.PERF_SAMPLE_CGROUP))
    if kinds & abi.PERF_SAMPLE_CALLCHAIN:
        # The length, marks, and 16 frames, as in chains of a busy kernel.
        size += 8 * (2 + 16)
    if kinds & abi.PERF_SAMPLE_REGS_USER:
        size += 8 * (1 + bits_set(attr.sample_regs_user))
    if kinds & abi.PERF_SAMPLE_STACK_USER:
        size += 16 + attr.sample_stack_user
    if kinds & abi.PERF_SAMPLE_BRANCH_STACK:
        size += 8 * (1 + 3 * 32)
    return size

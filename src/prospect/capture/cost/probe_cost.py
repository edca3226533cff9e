"""What a probe at the first instruction of a function costs its caller, measured here and now.

Comes in: kinds of first instruction. Goes out: nanoseconds a call. The kernel has several ways
through a breakpoint, by the instruction that stands there, and one costs many times another: a nop
of five bytes becomes a call, pushes and jumps are emulated, all others are executed out of line
with a second trap behind them. ``endbr64``, with which many functions begin, is a kind of its own.
A little code in a file without a name is timed with and without a probe. Rounds in which another
task had the CPU say nothing of it and do not count.

Source: arch_uprobe_analyze_insn(), arch_uprobe_optimize() in ``arch/x86/kernel/uprobes.c``,
Linux 6.18; Intel SDM volume 2 for the bytes.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from typing import TYPE_CHECKING

from prospect.capture.cost.sample_cost import median_and_spread, preemptions
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = ("nop", "emulated", "endbr64", "other")
_FIRST = {
    "nop": b"\x0f\x1f\x44\x00\x00",
    "emulated": b"\x55",  # push %rbp
    "endbr64": b"\xf3\x0f\x1e\xfa",
    "other": b"\x89\xf8",  # mov %edi, %eax
}
_REST = {"emulated": b"\x5d\xc3"}  # pop %rbp; ret
_RET = b"\xc3"
_CALLS, _ROUNDS = 100, 9
# As long is waited until a loaded CPU has left alone the fewest rounds.
_LOADED_BUDGET_NS = 50_000_000
_FEWEST_ROUNDS = 5
# Where the cost cannot be measured: as much as was ever seen, and so no promise is broken.
UNKNOWN_NS = 60_000.0


class ProbeCost(NamedTuple):
    """What a call of a probed function takes longer, in ns, and how far that may be off."""

    cost_ns: float
    spread_ns: float


def kind_of(code: bytes) -> str:
    """Name the kind of a function by its first bytes."""
    if code.startswith(_FIRST["nop"]):
        return "nop"
    if code.startswith(_FIRST["endbr64"]):
        return "endbr64"
    opcode = code[1:2] if code[:1] == b"\x41" else code[:1]  # with REX.B: push %r8 to %r15
    is_push = b"\x50" <= opcode <= b"\x57"
    is_jump = code[:1] in (b"\xe8", b"\xe9", b"\xeb") or b"\x70" <= code[:1] <= b"\x7f"
    is_long_jump = code[:1] == b"\x0f" and b"\x80" <= code[1:2] <= b"\x8f"
    return "emulated" if is_push or is_jump or is_long_jump else "other"


def measure_probe_cost(kind: str, attach: Callable[[bytes, int], int]) -> ProbeCost:
    """Measure for some milliseconds what a probe costs.

    Args:
        kind: one of `KINDS`.
        attach: probes a file at an offset, and returns the descriptor that holds the probe.

    Returns:
        The cost; `UNKNOWN_NS` where this system lets nobody execute such a file, or probe it.
    """
    try:
        return _measure(_program(kind), attach)
    except OSError:
        return ProbeCost(UNKNOWN_NS, UNKNOWN_NS / 2)


def _program(kind: str) -> tuple[bytes, int]:
    """Return code that calls a function of this kind `_CALLS` times, and the function's offset."""
    head = b"\x53\xbb" + _CALLS.to_bytes(4, "little")  # push %rbx; mov $CALLS, %ebx
    loop = b"\xff\xcb\x75\xf7\x5b\xc3"  # dec %ebx; jnz to the call; pop %rbx; ret
    # The call's displacement counts from behind the call: the rest of the loop lies in between.
    code = head + b"\xe8" + len(loop).to_bytes(4, "little") + loop
    return code + _FIRST[kind] + _REST.get(kind, _RET), len(code)


def _measure(program: tuple[bytes, int], attach: Callable[[bytes, int], int]) -> ProbeCost:
    code, function = program
    file = os.memfd_create("prospect-probe-cost", os.MFD_CLOEXEC)
    try:
        os.write(file, code.ljust(mmap.PAGESIZE, b"\xcc"))
        address = _map(file)
        try:
            run = ctypes.CFUNCTYPE(None)(address)
            plain_ns = min(_durations_ns(run))
            probe = attach(b"/proc/self/fd/%d" % file, function)
            try:
                run()
                probed = [(each_ns - plain_ns) / _CALLS for each_ns in _durations_ns(run)]
            finally:
                os.close(probe)
        finally:
            _libc().munmap(ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE))
    finally:
        os.close(file)
    cost_ns, spread_ns = median_and_spread(probed)
    return ProbeCost(max(cost_ns, 1.0), spread_ns)


def _map(file: int) -> int:
    """Map a page of a file for execution and return its address."""
    call = _libc().mmap
    call.restype = ctypes.c_void_p
    address = call(
        None,
        ctypes.c_size_t(mmap.PAGESIZE),
        mmap.PROT_READ | mmap.PROT_EXEC,
        mmap.MAP_PRIVATE,
        file,
        ctypes.c_long(0),
    )
    if address in (None, ctypes.c_void_p(-1).value):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(address)


def _durations_ns(run: Callable[[], object]) -> list[int]:
    """Time rounds without another task; all rounds where nearly every one was disturbed."""
    every: list[int] = []
    alone: list[int] = []
    begin_ns = time.perf_counter_ns()
    while len(alone) < _ROUNDS:
        if len(every) >= _ROUNDS and time.perf_counter_ns() - begin_ns >= _LOADED_BUDGET_NS:
            break
        switches = preemptions()
        took_ns = _duration_ns(run)
        every.append(took_ns)
        if preemptions() == switches:
            alone.append(took_ns)
    return alone if len(alone) >= _FEWEST_ROUNDS else every


def _duration_ns(run: Callable[[], object]) -> int:
    begin_ns = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - begin_ns


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)

"""CPU time of other tracers' programs, which is the share of samples that reading frames loses.

While a program of a kprobe or a tracepoint runs on a CPU, the kernel runs no other there, and drops
the sample at which the walker was to run. So the share of lost samples is that of the programs' CPU
time.

Source: bpf_prog_active in ``kernel/trace/bpf_trace.c`` and ``kernel/events/core.c``, Linux 6.18.
"""

from __future__ import annotations

import os

from prospect.abi import bpf as abi
from prospect.capture.kernel import bpf_objects
from prospect.capture.kernel.procfs import read_cpu_times

# The program of --count-calls; those of user-space probes keep no other program from a CPU.
_OWN_PROBES = "prospect_calls"
_KINDS = (abi.BPF_PROG_TYPE_KPROBE, abi.BPF_PROG_TYPE_TRACEPOINT)
_IDLE_FIELDS = (3, 4)  # idle and iowait, of /proc/stat
_NS = 1e-9
# A shorter busy time, as on an idle machine, is too little to measure a share.
_LEAST_BUSY_S = 0.05
# Share of the samples; the loss is not even.
MOST_SHARE = 0.02
WATCHED_S = 0.1


def has_tracers() -> bool:
    """Whether any programs of other tracers are loaded, as far as this user may know."""
    return bool(_run_ns())


class Tracers:
    """Measures programs of other tracers, for `WATCHED_S` at a time."""

    def __init__(self) -> None:
        self._descriptor = -1
        self._before: dict[int, int] = {}
        self._busy_s = 0.0

    @property
    def is_measuring(self) -> bool:
        """Whether a measurement has begun."""
        return self._descriptor >= 0

    def begin(self) -> bool:
        """Begin to measure; return whether any programs are loaded.

        Raises:
            OSError: the kernel refused.
        """
        if not _run_ns():
            return False
        self._descriptor = bpf_objects.enable_run_times()
        self._before, self._busy_s = _run_ns(), _busy_s()
        return True

    def share(self) -> float:
        """Return the part of the CPUs' busy time that they took since `begin`, 0 to 1.

        Raises:
            OSError: the kernel refused.
        """
        try:
            after, busy_s = _run_ns(), _busy_s() - self._busy_s
        finally:
            os.close(self._descriptor)
            self._descriptor = -1
        ran_ns = sum(max(ns - self._before.get(number, ns), 0) for number, ns in after.items())
        return ran_ns * _NS / max(busy_s, ran_ns * _NS, _LEAST_BUSY_S)


def _run_ns() -> dict[int, int]:
    """Return the run time of each program by its number; nothing if this user may not read it."""
    try:
        programs = bpf_objects.loaded_programs()
    except PermissionError:
        return {}
    return {
        one.number: one.run_ns for one in programs if one.kind in _KINDS and one.name != _OWN_PROBES
    }


def _busy_s() -> float:
    times = read_cpu_times().get("cpu", [])
    busy = sum(ticks for field, ticks in enumerate(times) if field not in _IDLE_FIELDS)
    return float(busy) / os.sysconf("SC_CLK_TCK")

"""Set up this process for work on whole columns: numpy's settings, and memory of the C library.

Numpy reads its settings once, from the environment, when it is imported: without a thread for each
CPU, and without slow sorts. They are removed again, so that child processes do not inherit them.
Memory settings are those of mallopt(3): M_TRIM_THRESHOLD and M_MMAP_THRESHOLD.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# On AMD's Zen 4 a masked AVX-512 store, which numpy's sorts do all the time, takes a few hundred
# cycles. With AVX2 these sorts take a fifth to a third of the time.
# Source: Software Optimization Guide for the AMD Zen4 Microarchitecture (57647), 2.11.2; OpenJDK's
# change 8317976 tests for the same family.
_AMD = b"AuthenticAMD"
_ZEN_4_FAMILY = b"25"  # Zen 3 too, which has no AVX-512
_FLAGS = {b"avx512f", b"avx2", b"f16c", b"fma"}
# All features that numpy may use then, by their names in numpy 2.4 and in earlier versions. Naming
# the disabled ones instead is an error if numpy was built for such a CPU alone.
_UP_TO_AVX_2 = "X86_V3 SSSE3 SSE41 POPCNT SSE42 AVX F16C FMA3 AVX2"
_ENABLE = "NPY_ENABLE_CPU_FEATURES"
_CHOSEN_BY_USER = (_ENABLE, "NPY_DISABLE_CPU_FEATURES")
_FIRST_CPU_BYTES = 1 << 12
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_NEVER_BYTES = 1 << 30
_LEAST_MAPPED_BYTES = 1 << 17


def start_numpy() -> None:
    """Import numpy for work on columns; do nothing if it is imported already."""
    if "numpy" in sys.modules:
        return
    # Its linear algebra would start a thread for each CPU (58 ms); nothing here uses it.
    chosen = {} if "OPENBLAS_NUM_THREADS" in os.environ else {"OPENBLAS_NUM_THREADS": "1"}
    if sorts_slowly(_first_cpu()) and not any(name in os.environ for name in _CHOSEN_BY_USER):
        chosen[_ENABLE] = _UP_TO_AVX_2
    os.environ.update(chosen)
    try:
        with warnings.catch_warnings():
            # Numpy warns of names that it does not know.
            warnings.simplefilter("ignore", ImportWarning)
            import numpy as np  # noqa: PLC0415 - with the environment as it is now
    finally:
        for name in chosen:
            os.environ.pop(name, None)
    if "numpy.ma" not in sys.modules:
        vars(np)["ma"] = _MasksUnread()


class _MasksUnread:
    """Stands in for numpy.ma, which takes 7 ms to import, until something else uses it.

    From numpy 2.3 on, `unique` calls its `is_masked` for each array.
    """

    def is_masked(self, _: object) -> bool:
        """Return False: masked arrays are a class of the module, which nothing has imported."""
        return False

    def __getattr__(self, name: str) -> Any:
        # Importing the module replaces this object.
        return getattr(importlib.import_module("numpy.ma"), name)


def sorts_slowly(cpu: bytes) -> bool:
    """Return whether AVX-512 makes numpy's sorts slower on a CPU that /proc/cpuinfo describes."""
    facts: dict[bytes, bytes] = {}
    for line in cpu.splitlines():
        name, _, value = line.partition(b":")
        facts.setdefault(name.strip(), value.strip())
    kind = facts.get(b"vendor_id"), facts.get(b"cpu family")
    return kind == (_AMD, _ZEN_4_FAMILY) and set(facts.get(b"flags", b"").split()) >= _FLAGS


def _first_cpu() -> bytes:
    """Return the first CPU of /proc/cpuinfo, b"" if it cannot be read."""
    try:
        descriptor = os.open("/proc/cpuinfo", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _FIRST_CPU_BYTES)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def keep_freed_memory() -> bool:
    """Keep freed memory until the process ends; return whether the C library supports that.

    Every stage of a report makes and drops columns of many megabytes. By default glibc maps and
    unmaps each, and the kernel clears every page again: half of all page faults of a report on ten
    million samples, and a tenth of its time.
    """
    return _set_malloc({_M_MMAP_THRESHOLD: _NEVER_BYTES, _M_TRIM_THRESHOLD: _NEVER_BYTES})


def return_freed_memory() -> bool:
    """Return the memory of columns when they are freed; return whether the C library supports that.

    For a process that runs for months and works for a moment each minute. By default glibc
    allocates blocks smaller than the largest one freed so far from a heap of each thread. Small
    objects that persist keep the pages around them there.
    """
    return _set_malloc({_M_MMAP_THRESHOLD: _LEAST_MAPPED_BYTES, _M_ARENA_MAX: 1})


def _set_malloc(settings: dict[int, int]) -> bool:
    import ctypes  # noqa: PLC0415 - not every process that starts numpy needs it

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # musl
        return False
    return all(mallopt(setting, value) == 1 for setting, value in settings.items())

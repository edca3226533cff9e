"""Set this process up for work on whole columns: numpy's settings, and how memory is kept.

Numpy reads its settings once, from the environment, as it is imported: without a thread for each
CPU, and without slow sorts. They are taken out again: what this process starts is none of their
business. Memory is kept by the C library's mallopt(3), M_TRIM_THRESHOLD and M_MMAP_THRESHOLD.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# AMD's Zen 4 has AVX-512, but storing what a mask leaves of a vector, which numpy's sorts do all
# the time, takes it a few hundred cycles: with AVX2 they take a fifth to a third of the time.
# Source: Software Optimization Guide for the AMD Zen4 Microarchitecture (57647), 2.11.2; OpenJDK's
# change 8317976 goes by the same family.
_AMD = b"AuthenticAMD"
_ZEN_4_FAMILY = b"25"  # Zen 3 too, which has no AVX-512
_FLAGS = {b"avx512f", b"avx2", b"f16c", b"fma"}
# All that numpy may use then, by its name in numpy 2.4, and by those of earlier versions. To name
# what is left out instead is an error where a numpy was built for such a CPU alone.
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
    """Import numpy for work on columns; do nothing if somebody imported it already."""
    if "numpy" in sys.modules:
        return
    # Its linear algebra would start a thread for each CPU (58 ms); nothing here uses it.
    chosen = {} if "OPENBLAS_NUM_THREADS" in os.environ else {"OPENBLAS_NUM_THREADS": "1"}
    if sorts_slowly(_first_cpu()) and not any(name in os.environ for name in _CHOSEN_BY_USER):
        chosen[_ENABLE] = _UP_TO_AVX_2
    os.environ.update(chosen)
    try:
        with warnings.catch_warnings():
            # That it does not know each of the names.
            warnings.simplefilter("ignore", ImportWarning)
            import numpy as np  # noqa: PLC0415 - with the environment as it is now
    finally:
        for name in chosen:
            os.environ.pop(name, None)
    if "numpy.ma" not in sys.modules:
        vars(np)["ma"] = _MasksUnread()


class _MasksUnread:
    """In the place of numpy.ma, which takes 7 ms to import, as long as nobody has masks.

    From numpy 2.3 on, `unique` asks it of each array.
    """

    def is_masked(self, _: object) -> bool:
        """Return False: the class of arrays with masks is in the module."""
        return False

    def __getattr__(self, name: str) -> Any:
        # Importing it puts it in this place.
        return getattr(importlib.import_module("numpy.ma"), name)


def sorts_slowly(cpu: bytes) -> bool:
    """Say whether numpy's AVX-512 makes sorting slower on a CPU, as /proc/cpuinfo describes it."""
    facts: dict[bytes, bytes] = {}
    for line in cpu.splitlines():
        name, _, value = line.partition(b":")
        facts.setdefault(name.strip(), value.strip())
    kind = facts.get(b"vendor_id"), facts.get(b"cpu family")
    return kind == (_AMD, _ZEN_4_FAMILY) and set(facts.get(b"flags", b"").split()) >= _FLAGS


def _first_cpu() -> bytes:
    """Return what the kernel says of the first CPU, b"" if that cannot be read."""
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
    """Keep what is freed until the process ends; return whether the C library knows how.

    Every stage of a report makes and drops columns of many megabytes. By default glibc takes each
    from the kernel and returns it at once, and the kernel clears every page again: half of all page
    faults of a report on ten million samples, and a tenth of its time.
    """
    return _set_malloc({_M_MMAP_THRESHOLD: _NEVER_BYTES, _M_TRIM_THRESHOLD: _NEVER_BYTES})


def return_freed_memory() -> bool:
    """Return the memory of columns when they are freed; return whether the C library knows how.

    For a process that lives for months and works for a moment each minute. By default glibc takes
    what is smaller than the largest block freed so far from a heap for each thread, in which small
    objects that stay hold the pages in between.
    """
    return _set_malloc({_M_MMAP_THRESHOLD: _LEAST_MAPPED_BYTES, _M_ARENA_MAX: 1})


def _set_malloc(settings: dict[int, int]) -> bool:
    import ctypes  # noqa: PLC0415 - not of every process that starts numpy

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # musl
        return False
    return all(mallopt(setting, value) == 1 for setting, value in settings.items())

"""Performance monitoring units that the kernel lists in sysfs: types, parameters, named events.

Defined by: ``Documentation/ABI/testing/sysfs-bus-event_source-devices-events`` and ``-format``.
"""

from __future__ import annotations

import os
import re

from prospect.capture.capture_limits import MOST_SYSFS_BYTES
from prospect.capture.kernel.procfs import names_in, read_if_there
from prospect.errors import CaptureError
from prospect.records import NamedTuple

DEVICES = "/sys/bus/event_source/devices"
_BIT_RANGE = re.compile(r"(\d{1,2})(?:-(\d{1,2}))?\Z")
_CONFIG_FIELDS = ("config", "config1", "config2", "config3")
_CORES = ("cpu", "cpu_core", "cpu_atom")  # Arm's are armv8_pmuv3_0, armv8_cortex_a72, …
_NAME = re.compile(r"[\w.:-]{1,128}\Z", re.ASCII)


class Parameter(NamedTuple):
    """The field of the attributes that a parameter sets, and its bits from the lowest up."""

    field: str
    bits: tuple[int, ...]

    def placed(self, value: int) -> int:
        """Return `value` spread over the bits.

        Raises:
            ValueError: it has more bits.
        """
        if value < 0 or value >> len(self.bits):
            raise ValueError
        return sum((value >> place & 1) << bit for place, bit in enumerate(self.bits))


class PmuEvent(NamedTuple):
    """An event to which the kernel gives a name: its parameters, and the unit of one count."""

    name: str
    terms: str
    unit: str = ""
    scale: float = 1.0


def pmu_names(root: str = DEVICES) -> list[str]:
    """Return the units of this machine, sorted; none if /sys is not mounted."""
    return sorted(names_in(root))


def pmu_type(name: str, root: str = DEVICES) -> int | None:
    """Return a unit's type for perf_event_open(), None if there is no such unit."""
    if not _NAME.match(name) or name.startswith("."):
        return None
    text = read_if_there(f"{root}/{name}/type", MOST_SYSFS_BYTES).strip()
    return int(text) if text.isdigit() else None


def has_core_counters(root: str = DEVICES) -> bool:
    """Return whether the kernel has a PMU of the CPU's cores, for hardware events."""
    return any(name in _CORES or name.startswith("arm") for name in pmu_names(root))


def pmu_cpus(name: str, root: str = DEVICES) -> bytes:
    """Return the CPUs that count for a unit outside of the cores, as a list; empty for a core's."""
    return read_if_there(f"{root}/{name}/cpumask", MOST_SYSFS_BYTES).strip()


def pmu_parameters(name: str, root: str = DEVICES) -> dict[str, Parameter]:
    """Return a unit's named parameters.

    Raises:
        CaptureError: a file of the kernel has no list of bits.
    """
    found = {}
    for parameter, text in _files(f"{root}/{name}/format"):
        field, colon, ranges = text.partition(":")
        bits: list[int] = []
        for part in ranges.split(",") if colon else ():
            match = _BIT_RANGE.match(part)
            if not match:
                break
            bits.extend(range(int(match[1]), int(match[2] or match[1]) + 1))
        if field not in _CONFIG_FIELDS or not bits or max(bits) > 63:
            raise CaptureError(
                f"{root}/{name}/format/{parameter} says '{text}', not a list of bits"
            )
        found[parameter] = Parameter(field, tuple(bits))
    return found


def pmu_events(name: str, root: str = DEVICES) -> list[PmuEvent]:
    """Return the named events of a unit, sorted."""
    texts = dict(_files(f"{root}/{name}/events"))
    found = []
    for event, terms in texts.items():
        stem, dot, suffix = event.rpartition(".")
        if dot and stem in texts and suffix in ("unit", "scale", "per-pkg", "snapshot"):
            continue
        found.append(PmuEvent(event, terms, texts.get(f"{event}.unit", ""), _scale(texts, event)))
    return found


def _scale(texts: dict[str, str], event: str) -> float:
    try:
        return float(texts.get(f"{event}.scale", "1"))
    except ValueError:
        return 1.0


def _files(directory: str) -> list[tuple[str, str]]:
    """Return the names and one-line contents of a directory's files, sorted."""
    return [
        (name, os.fsdecode(read_if_there(f"{directory}/{name}", MOST_SYSFS_BYTES)).strip())
        for name in sorted(names_in(directory))
    ]

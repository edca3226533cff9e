"""Facts about the machine for the header of a report and of a perf.data file.

They are from uname(2), /proc/cpuinfo, /proc/meminfo and /proc/stat.

Defined by: proc(5); ``tools/perf/util/header.c`` for how perf words the CPU's identity.
"""

from __future__ import annotations

import os

from prospect.capture.kernel.procfs import read_if_there
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# One CPU's paragraph of /proc/cpuinfo is enough; making up all of them is slow on large machines.
_CPUINFO_BYTES = 2048
_MIDR = "/sys/devices/system/cpu/cpu0/regs/identification/midr_el1"


class Machine(NamedTuple):
    """The machine as perf's feature sections describe it, and Prospect's `Uname:` line."""

    hostname: str
    os_release: str
    arch: str
    uname: str
    cpus_online: int
    cpus_available: int
    cpu_description: str
    cpuid: str
    cpu_mhz: float
    total_memory_kib: int
    counters_are_nmis: bool = False


def describe_machine(proc: str = "/proc") -> Machine:
    """Gather the facts; what this machine does not say is empty or zero."""
    uname = os.uname()
    cpu = _colon_fields(read_if_there(f"{proc}/cpuinfo", _CPUINFO_BYTES))
    memory = _colon_fields(read_if_there(f"{proc}/meminfo"))
    identity = [cpu.get(key, "") for key in ("vendor_id", "cpu family", "model", "stepping")]
    return Machine(
        hostname=uname.nodename,
        os_release=uname.release,
        arch=uname.machine,
        uname=" ".join(uname),
        cpus_online=os.sysconf("SC_NPROCESSORS_ONLN"),
        cpus_available=os.sysconf("SC_NPROCESSORS_CONF"),
        cpu_description=cpu.get("model name", ""),
        cpuid=",".join(identity) if all(identity) else os.fsdecode(read_if_there(_MIDR).strip()),
        cpu_mhz=_number(cpu.get("cpu MHz", "")),
        total_memory_kib=int(_number(memory.get("MemTotal", ""))),
        counters_are_nmis=counters_are_nmis(uname.machine, read_if_there(f"{proc}/cmdline")),
    )


def counters_are_nmis(machine: str, kernel_command_line: bytes) -> bool:
    """Return whether hardware counters are known to interrupt even where interrupts are masked.

    Those of x86 do; those of arm64 only where the kernel's command line asks for pseudo-NMIs.

    Args:
        machine: as uname(2) has it.
        kernel_command_line: of the running kernel; the last setting counts.

    Source: ``drivers/irqchip/irq-gic-v3.c`` gicv3_nmi_enable, ``lib/kstrtox.c`` kstrtobool().
    """
    pseudo_nmi = False
    for word in kernel_command_line.split():
        name, _, value = word.partition(b"=")
        if name == b"irqchip.gicv3_pseudo_nmi":
            pseudo_nmi = value[:1].lower() in (b"1", b"y", b"t") or value[:2].lower() == b"on"
    return machine == "x86_64" or (machine == "aarch64" and pseudo_nmi)


def accounting(start: dict[str, list[int]], end: dict[str, list[int]]) -> dict[str, Any]:
    """Return two readings as the recording keeps them."""
    return {"hz": os.sysconf("SC_CLK_TCK"), "start": start, "end": end}


def _colon_fields(text: bytes) -> dict[str, str]:
    """Return ``name : value`` lines, the first of each name."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(b":")
        if colon:
            fields.setdefault(os.fsdecode(name.strip()), os.fsdecode(value.strip()))
    return fields


def _number(text: str) -> float:
    word = text.partition(" ")[0]
    try:
        return float(word)
    except ValueError:
        return 0.0

from __future__ import annotations

import pytest

from prospect.capture.kernel.procfs import read_cpu_times
from prospect.capture.machine.surroundings import counters_are_nmis, describe_machine

CPUINFO = (
    "processor\t: {}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\n"
    "model name\t: A CPU: fast @ 2.0GHz\nstepping\t: 7\ncpu MHz\t\t: 2000.5\n\n"
)


def test_machine_is_described_in_perfs_words(tmp_path):
    (tmp_path / "cpuinfo").write_text(CPUINFO.format(0) + CPUINFO.format(1).replace("2000", "1"))
    (tmp_path / "meminfo").write_text("MemTotal:       24684092 kB\nMemFree: 1 kB\n")
    machine = describe_machine(str(tmp_path))
    assert machine.cpu_description == "A CPU: fast @ 2.0GHz"
    assert machine.cpuid == "GenuineIntel,6,85,7"
    assert machine.cpu_mhz == 2000.5
    assert machine.total_memory_kib == 24684092


def test_machine_that_says_little_is_described_all_the_same(tmp_path):
    machine = describe_machine(str(tmp_path))
    assert (machine.cpu_description, machine.cpu_mhz, machine.total_memory_kib) == ("", 0.0, 0)
    assert machine.hostname in machine.uname


def test_cpu_times_are_the_first_eight_of_each_line(tmp_path):
    stat = tmp_path / "stat"
    stat.write_text("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4\nintr 5\ncpu9 1\n")
    assert read_cpu_times(str(stat)) == {"cpu": [1, 2, 3, 4, 5, 6, 7, 8], "cpu0": [1, 2, 3, 4]}


def test_cpu_times_of_a_hidden_proc_are_none(tmp_path):
    assert read_cpu_times(str(tmp_path / "none")) == {}


@pytest.mark.parametrize(
    ("machine", "command_line", "are_nmis"),
    [
        ("x86_64", b"", True),
        ("aarch64", b"console=ttyAMA0 quiet\n", False),
        ("aarch64", b"quiet irqchip.gicv3_pseudo_nmi=1\n", True),
        ("aarch64", b"irqchip.gicv3_pseudo_nmi=on", True),
        ("aarch64", b"irqchip.gicv3_pseudo_nmi=1 irqchip.gicv3_pseudo_nmi=off", False),
        ("riscv64", b"irqchip.gicv3_pseudo_nmi=1", False),
    ],
)
def test_counters_are_nmis_on_x86_and_where_arm64_was_told_so(machine, command_line, are_nmis):
    assert counters_are_nmis(machine, command_line) == are_nmis

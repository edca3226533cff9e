"""Numbers of system calls against the headers that this machine's C library is built with."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from prospect.abi.syscall_names import syscall_name, syscall_names

HEADERS = Path("/usr/include/x86_64-linux-gnu/asm")
GENERIC = Path("/usr/include/asm-generic/unistd.h")
# As arch/arm64/include/uapi/asm/unistd.h defines them.
ARM64_WANTS = ("RENAMEAT", "NEW_STAT", "SET_GET_RLIMIT", "MEMFD_SECRET", "SYS_CLONE3")
NO_CALLS = ("__NR_syscalls", "__NR_arch_specific_syscall")


@pytest.mark.parametrize(
    ("header", "compat"), [("unistd_64.h", False), ("unistd_32.h", True)], ids=["x86-64", "i386"]
)
def test_the_tables_of_x86_are_those_of_the_installed_headers(header, compat):
    if not (HEADERS / header).exists():
        pytest.skip("the headers of the kernel's interface are not installed")
    text = (HEADERS / header).read_text()
    installed = {
        int(number): name for name, number in re.findall(r"#define __NR_(\w+) (\d+)\n", text)
    }
    assert len(installed) > 350
    ours = syscall_names("x86_64", compat=compat)
    assert {number: ours.get(number) for number in installed} == installed


def test_the_table_of_arm64_is_that_of_the_generic_header():
    compiler = shutil.which("cc")
    if not (compiler and GENERIC.exists()):
        pytest.skip("there is no compiler, or no headers of the kernel's interface")
    macros = subprocess.run(
        [compiler, "-E", "-dM", *(f"-D__ARCH_WANT_{name}" for name in ARM64_WANTS), GENERIC],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    numbers = dict(re.findall(r"#define (__NR\w+) (\w+)\n", macros))
    installed = {
        int(numbers.get(value, value)): name.removeprefix("__NR_")
        for name, value in numbers.items()
        if name.startswith("__NR_") and name not in NO_CALLS
    }
    assert len(installed) > 300
    ours = syscall_names("aarch64")
    assert {number: ours.get(number) for number in installed} == installed


def test_a_32_bit_call_has_another_number():
    assert [syscall_name("x86_64", 3, compat=compat) for compat in (False, True)] == [
        "close",
        "read",
    ]
    assert [syscall_name("aarch64", 63), syscall_name("aarch64", 3, compat=True)] == ["read"] * 2
    assert syscall_name("aarch64", 252, compat=True) == "epoll_wait"


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("compat", [False, True])
def test_newer_calls_have_one_number_everywhere(machine, compat):
    assert syscall_name(machine, 435, compat=compat) == "clone3"
    assert syscall_name(machine, 469, compat=compat) == "file_setattr"


def test_what_has_no_name_has_its_number():
    assert syscall_name("x86_64", 400) == "syscall_400"
    assert syscall_name("riscv64", 63) == "syscall_63"


def test_no_table_says_a_name_twice():
    for machine in ("x86_64", "aarch64"):
        for compat in (False, True):
            names = syscall_names(machine, compat=compat)
            assert len(names) > 300
            assert len(set(names.values())) == len(names)

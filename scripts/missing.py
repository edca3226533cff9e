#!/usr/bin/env python3
"""Say what this machine lacks for a full run of the tests; a test that needs it is skipped."""

import ctypes.util
import os
import shutil
import sys
from pathlib import Path

# Programs, each with the Debian package that has it.
PROGRAMS = {
    "callgrind_annotate": "valgrind",
    "cc": "gcc",
    "chromedriver": "chromium-driver",
    "chromium": "chromium",
    "c++filt": "binutils",
    "debuginfod": "debuginfod",
    "dwz": "dwz",
    "fusermount3": "fuse3",
    "g++": "g++",
    "gcc": "gcc",
    "gdb": "gdb-multiarch",
    "gdb-multiarch": "gdb-multiarch",
    "java": "default-jdk-headless",
    "javac": "default-jdk-headless",
    "keytool": "default-jdk-headless",
    "llvm-dwp": "llvm",
    "llvm-symbolizer": "llvm",
    "make": "make",
    "mksquashfs": "squashfs-tools",
    "node": "nodejs",
    "objcopy": "binutils",
    "objdump": "binutils",
    "perf": "linux-perf",
    "readelf": "binutils",
    "squashfuse": "squashfuse",
    "ssh": "openssh-server",
    "strace": "strace",
    "strip": "binutils",
}
# Files, each with the Debian package that has it.
FILES = {
    "/usr/include/linux/perf_event.h": "libc6-dev",
    "/usr/lib/debug/.build-id": "libc6-dbg",
    "/usr/sbin/sshd": "openssh-server",
}
# Files of the kernel, each with the part of the kernel that makes it.
KERNEL = {
    "/proc/sys/kernel/perf_event_paranoid": "perf events",
    "/sys/kernel/btf/vmlinux": "BTF",
    "/dev/fuse": "FUSE",
}


def missing() -> list[str]:
    """Return what is missing: Debian packages, parts of the kernel, rights."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    packages = {PROGRAMS[name] for name in PROGRAMS if not shutil.which(name, path=path)}
    packages |= {package for file, package in FILES.items() if not Path(file).exists()}
    if not ctypes.util.find_library("pfm"):
        packages.add("libpfm4")
    lacking = [f"Debian's {' '.join(sorted(packages))}"] if packages else []
    lacking += [f"{name} of the kernel" for file, name in KERNEL.items() if not Path(file).exists()]
    if os.geteuid():
        lacking.append("root")
    if (os.cpu_count() or 1) < 2:
        lacking.append("a second CPU")
    return lacking


if __name__ == "__main__":
    if lacking := missing():
        sys.stderr.write(f"check: missing for a full run: {'; '.join(lacking)}\n")

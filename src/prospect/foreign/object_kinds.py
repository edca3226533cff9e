"""The path of an object, as perf, Prospect and pprof write it → what kind of object it is."""

from __future__ import annotations

import re

from prospect.profile.model import (
    KIND_ANON,
    KIND_BPF,
    KIND_ELF,
    KIND_JIT,
    KIND_KERNEL,
    KIND_MODULE,
    KIND_UNKNOWN,
    KIND_VDSO,
)

NO_OBJECT = ("[unknown]", KIND_UNKNOWN, "")
# How perf and Prospect call what is no program or library.
_KINDS = (
    (re.compile(r"\[(guest\.)?kernel(\.kallsyms)?\]|(.*/)?vmlinux[^/]*"), KIND_KERNEL),
    (re.compile(r"\[vdso\]|\[vsyscall\]"), KIND_VDSO),
    (re.compile(r"\[?bpf(_prog_.*)?\]?"), KIND_BPF),
    (re.compile(r"\[jit\]|(.*/)?perf-\d+\.map|(.*/)?jitted-.*\.so"), KIND_JIT),
    (re.compile(r"//anon|\[anon.*\]|\[heap\]|\[stack.*\]"), KIND_ANON),
    (re.compile(r"\[(unknown|no object|guest|hypervisor|cut)\]"), KIND_UNKNOWN),
    (re.compile(r"\[[\w-]+\]|.*\.ko(\.\w+)?"), KIND_MODULE),
)


def object_kind(path: str) -> int:
    """Return KIND_* of an object, by what perf and Prospect call such objects."""
    return next((kind for form, kind in _KINDS if form.fullmatch(path)), KIND_ELF)

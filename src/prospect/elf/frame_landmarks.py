"""Places of an image whose callers are known without call-frame information.

In: an image. Out: `Landmark`s: its entry point, and what signal handlers return to.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import frame_rules as rules
from prospect.elf import layout
from prospect.elf.frame_states import signal_rule
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.elf.image import ElfImage

_MOST_TRAMPOLINES = 64
_ENTRY_BYTES = 32
# What a trampoline's instructions end with, what they may begin with, and how far from sp the
# interrupted frame's sp lies. A search for one constant is ten times as fast as one for two.
_RT_SIGRETURN = {
    # mov $15, %rax or %eax; syscall: where the stack pointer stands, the ucontext begins
    layout.EM_X86_64: (re.compile(rb"\x0f\0\0\0\x0f\x05"), (b"\x48\xc7\xc0", b"\xb8"), 160),
    # mov x8, #139; svc #0: siginfo and the ucontext up to its registers lie above sp
    layout.EM_AARCH64: (re.compile(rb"\x68\x11\x80\xd2\x01\0\0\xd4"), (b"",), 560),
}


class Landmark(NamedTuple):
    """From `start` to `end`, SVMAs, `rule` holds; see `frame_rules`."""

    start: int
    end: int
    rule: int


def find_landmarks(image: ElfImage) -> list[Landmark]:
    """Find the places of an image of x86-64 or arm64."""
    return [*_entry(image), *_trampolines(image)]


def _entry(image: ElfImage) -> Iterator[Landmark]:
    """Say that the entry point has no caller: dynamic linkers and musl do not describe theirs."""
    entry = int(np.frombuffer(image.data, layout.EHDR_64, 1)[0]["entry"])
    if entry:
        yield Landmark(entry, entry + _ENTRY_BYTES, rules.END)


def _trampolines(image: ElfImage) -> list[Landmark]:
    """Find what signal handlers return to, by its instructions: some libraries do not describe it.

    Source: setup_rt_frame() in ``arch/x86/kernel/signal_64.c`` and struct rt_sigframe in
    ``arch/arm64/kernel/signal.c`` (Linux 6.18).
    """
    pattern, heads, saved_sp = _RT_SIGRETURN[image.machine]
    rule = int(signal_rule(np.array([saved_sp]))[0])
    found: list[Landmark] = []
    # Segments that overlap would have the same bytes searched again and again.
    left = len(image.data)
    for segment in image.segments:
        if segment["type"] != layout.PT_LOAD or not segment["flags"] & layout.PF_X:
            continue
        offset, address = int(segment["offset"]), int(segment["vaddr"])
        code = image.data[offset : offset + min(int(segment["filesz"]), left)]
        left -= len(code)
        for match in pattern.finditer(code):
            first = match.start()
            sizes = [len(head) for head in heads if code[max(first - len(head), 0) : first] == head]
            if sizes and len(found) < _MOST_TRAMPOLINES:
                # A return address is looked up one byte before itself. In the kernel on its behalf,
                # a task stands behind the last instruction.
                begin = address + first - sizes[0] - 1
                found.append(Landmark(begin, address + match.end() + 1, rule))
    return found
